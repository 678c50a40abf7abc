"""The `e3rg` command."""

import argparse
import io
import os
import sys

import grpc

from client.client import TENANT_DEFAULT, Client
from client.commands import emotions, exemplars, identities, memory, respond, status, variants
from client.commands.arguments import Refusal, text
from client.connection import ClientError
from client.terminal import complain

SIGNAL_BASE = 128
INTERRUPTED = SIGNAL_BASE + 2
NOBODY_READS = SIGNAL_BASE + 13


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # what was said may be in any script
    try:
        try:
            client = Client(options.address, options.tenant, options.ca, options.certificate, options.key)
        except ValueError as error:
            parser.error(str(error))
        with client:
            result: int = options.run(client, options)
            return result
    except ClientError as error:
        complain(f"{error}{_advice(error, options)}")
    except Refusal as error:
        complain(str(error))
    except BrokenPipeError:
        # Python would flush what is left when it ends, and fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return NOBODY_READS
    except OSError as error:
        complain(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except KeyboardInterrupt:
        return INTERRUPTED
    return 1


def _advice(error: ClientError, options: argparse.Namespace) -> str:
    """Return what would be right where no connection came about, maybe for lack of the right TLS files."""
    # These are gRPC's own words; a deployment that answers has others.
    if error.status is not grpc.StatusCode.UNAVAILABLE or not error.message.startswith("failed to connect"):
        return ""
    if "CERTIFICATE_VERIFY_FAILED" in error.message:
        return f"; {options.ca} does not certify this deployment: name its authority by --ca or E3RG_CA_FILE"
    if "Socket closed" not in error.message and "Connection reset" not in error.message:
        return ""
    if not options.ca:
        return "; if the deployment speaks TLS, name its authority by --ca or E3RG_CA_FILE"
    if not options.certificate:
        return "; if the deployment demands a certificate, name yours by --certificate and --key"
    return f"; if the deployment demands a certificate, it may not accept {options.certificate}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="e3rg", description="Talks to an E3RG deployment.")
    address = os.environ.get("E3RG_ADDRESS", "127.0.0.1:50051")
    tenant = os.environ.get("E3RG_TENANT", TENANT_DEFAULT)
    parser.add_argument("--address", default=address, help="orchestrator, or E3RG_ADDRESS (default: %(default)s)")
    parser.add_argument(
        "--ca",
        default=os.environ.get("E3RG_CA_FILE", ""),
        metavar="FILE",
        help="authority of the orchestrator's certificate, or E3RG_CA_FILE: with it, the connection is TLS",
    )
    parser.add_argument(
        "--certificate",
        default=os.environ.get("E3RG_CERTIFICATE_FILE", ""),
        metavar="FILE",
        help="shown to a deployment that demands one, or E3RG_CERTIFICATE_FILE",
    )
    parser.add_argument(
        "--key",
        default=os.environ.get("E3RG_KEY_FILE", ""),
        metavar="FILE",
        help="private key of --certificate, or E3RG_KEY_FILE",
    )
    parser.add_argument(
        "--tenant", type=text, default=tenant, help="whose avatars, or E3RG_TENANT (default: %(default)s)"
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, module, purpose in (
        ("respond", respond, "send one message, write the reply"),
        ("status", status, "show how every service is"),
        ("identity", identities, "add, change, show, list, export, import or erase identities"),
        ("emotion", emotions, "what shows voices and faces an emotion"),
        ("exemplar", exemplars, "examples of answers"),
        ("memory", memory, "what was said: list, search, keep for how long, erase"),
        ("variants", variants, "which model of a stage serves which share of the conversations"),
    ):
        module.add_to(commands.add_parser(name, help=purpose, description=purpose[0].upper() + purpose[1:] + "."))
    return parser


if __name__ == "__main__":
    sys.exit(main())
