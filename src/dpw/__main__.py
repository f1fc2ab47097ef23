"""`python -m dpw`, which is also how `accelerate launch -m dpw` starts several processes."""

from dpw.cli import main

main()
