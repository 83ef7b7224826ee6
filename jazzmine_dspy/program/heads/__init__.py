"""Local heads: small models, served with numpy in about a millisecond, kept as safetensors.

What a head sees of a turn is defined here too, so that training and serving can't come apart.
"""
