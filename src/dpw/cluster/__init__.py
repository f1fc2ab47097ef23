"""Many processes of this machine, or many machines by Ray: runs, tasks, sweeps and batch prediction."""
