"""Cases of a pretended accelerator, run in a process of their own."""

from tests.helpers.pretended_cases import run_cases


def test_learning_files_and_reads_on_a_pretended_accelerator():
    run_cases(__file__, "devices_pretended_cases.py")
