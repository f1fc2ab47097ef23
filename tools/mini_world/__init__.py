"""The rendered world that the embedded model is pretrained on; not part of the installed package."""
