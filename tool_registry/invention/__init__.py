"""Evolution by a model: what it is asked, the form of its replies, what is made of them."""
