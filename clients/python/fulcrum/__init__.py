"""Client of Fulcrum, which finds the examples worth labeling."""

from .client import Campaign, Client
from .errors import FulcrumError, Skip
from .worker import Task, Worker

__version__ = "0.1.0"
__all__ = ["Campaign", "Client", "FulcrumError", "Skip", "Task", "Worker"]
