"""Client of Fulcrum, which finds the examples worth labeling.

`Client` and `Campaign` talk to a server, `aio` has both for asyncio, and `Worker` labels with a function.
`ModelWorker` is your own model in a campaign. `fulcrum.core` selects in this process, `fulcrum.estimators` fits
scikit-learn and scikit-activeml, `fulcrum.widget` labels in a notebook.
"""

from . import aio
from .campaign import Campaign
from .client import Client
from .errors import FulcrumError, Skip
from .model_worker import ModelWorker
from .worker import Task, Worker

__version__ = "0.1.0"
__all__ = ["Campaign", "Client", "FulcrumError", "ModelWorker", "Skip", "Task", "Worker", "aio"]
