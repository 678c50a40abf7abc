"""The deployment on one machine: every service a process on loopback, as the chart has them as containers."""
