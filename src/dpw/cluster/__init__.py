"""Many processes and machines by Ray: runs, tasks, sweeps and batch prediction."""
