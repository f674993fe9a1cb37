"""What an inference engine pays for one token: a chain of layers, by every way of launching it."""
