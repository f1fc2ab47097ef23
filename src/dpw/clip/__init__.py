"""CLIP with places where a method may act: loading, preprocessing, tokens and the two towers."""
