"""Templates of the pages we write: dataset card, report."""
