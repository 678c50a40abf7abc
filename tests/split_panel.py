"""A panel whose voters and writer have variants, over a table in a file."""

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path

from e3rg.understanding.v1 import understanding_pb2 as pb
from services.common.variants.table import Stage, Table, Variant, dump
from tests.understanding_service import WHEEL


def split(version: int, **others: Mapping[str, str]) -> Table:
    """Return a table in which "default" is the control of each stage, with other variants at their addresses."""
    stages = {
        stage.replace("_", "-"): Stage(
            variants={"default": Variant(weight=100)}
            | {name: Variant(address=address) for name, address in addresses.items()}
        )
        for stage, addresses in others.items()
    }
    return Table(version=version, stages=stages)


async def write(path: Path, table: Table) -> None:
    await asyncio.to_thread(path.write_text, dump(table), "utf-8")


def asked(table: Table, needed: Iterable[str]) -> pb.CheckVariantsRequest:
    """Return a gateway's question about a table; these variants and the controls are needed."""
    return pb.CheckVariantsRequest(
        variants=[
            pb.StageVariant(
                stage=stage,
                variant=name,
                address=variant.address,
                needed=name in {*needed, "default"},
                control=name == "default",
            )
            for stage, found in table.stages.items()
            for name, variant in found.variants.items()
        ]
    )


def named(version: int, *variants: pb.VoterVariant, text: str = "I lost my job.") -> pb.UnderstandRequest:
    """Return a header that names variants."""
    header = pb.UnderstandHeader(text=text, ontology_hash=WHEEL.digest, variants=variants, variants_version=version)
    return pb.UnderstandRequest(header=header)
