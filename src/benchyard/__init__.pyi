from benchyard.client.sdk import AsyncBenchyard as AsyncBenchyard
from benchyard.client.sdk import Benchyard as Benchyard
