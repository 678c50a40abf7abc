"""`e3rg status`."""

import argparse

from client.client import Client
from client.terminal import say
from client.turn_lines import DEFAULT


def add_to(parser: argparse.ArgumentParser) -> None:
    """Fills the parser of `e3rg status`."""
    parser.set_defaults(run=show)


def show(client: Client, options: argparse.Namespace) -> int:
    """Prints how every service is; fails unless all are ready and none tells of a problem."""
    services = client.status()
    for service in services:
        state = "ready" if service.ready else "NOT READY"
        model = service.card.model or service.card.backend if service.ready else ""
        # One is what everybody expects.
        replicas = f"{service.replicas_ready} of {service.replicas} replicas" if service.replicas > 1 else ""
        name = service.name if service.variant in ("", DEFAULT) else f"{service.name} {service.variant}"
        say(f"{name:22} {state:10} {'; '.join(filter(None, (model, replicas, service.problem)))}")
    say(f"emotion wheel {services[0].card.ontology_hash[:12]}")
    return 0 if all(service.ready and not service.problem for service in services) else 1
