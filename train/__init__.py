"""What eats the data: SFT, RL, evaluation in the environments."""
