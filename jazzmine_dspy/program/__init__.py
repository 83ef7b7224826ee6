"""What decides a turn: the program, its stages and the sources that answer them."""
