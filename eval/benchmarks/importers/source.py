"""One public source: what its card states, the files that it has, and how they become a dataset folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jazzmine_dspy.datasets.importers import ImportReport, writer
from jazzmine_dspy.datasets.importers.source_reader import Part, SourceReader, existing, named_parts
from jazzmine_dspy.models.errors import DatasetError
from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.models.parsing import MalformedError, from_json

Layout = Callable[[Path], dict[str, Path]]


class PublicReader(SourceReader):
    """Reads the files of a source. A row that cannot be read is counted and left out.

    Args:
        parts: The parts to read.
        src: The source's own file or folder, in which files lie that the parts share.
    """

    def __init__(self, parts: Sequence[Part], src: Path | None = None) -> None:
        super().__init__(parts)
        self._src = src

    def near(self, name: str, inner: str = "", part: Part | None = None) -> Path | None:
        """A file or folder that parts share: in the source or a part, or in the folder above.

        Args:
            name: Of the file or folder.
            inner: Folder of the published source in which it may also lie.
            part: Look near this part alone.
        """
        own = [self._src] if self._src is not None and part is None else []
        named = [*own, *(each.path for each in ([part] if part else self.parts))]
        for folder in (path if path.is_dir() else path.parent for path in named):
            for place in (folder, folder.resolve().parent):
                for path in (place / name, place / inner / name):
                    if path.exists():
                        return path
        return None

    def required(self, name: str, inner: str = "") -> Path:
        """The same.

        Raises:
            DatasetError: it is not there.
        """
        path = self.near(name, inner)
        if path is None:
            where = ", ".join(str(each.path) for each in self.parts)
            raise DatasetError(
                f"There is no {name} near the parts",
                where=where,
                remedy="Name the folder that holds it as SRC.",
            )
        return path

    def document(self, path: Path) -> Any:
        """The content of a JSON file.

        Raises:
            DatasetError: it cannot be read, or is not JSON.
        """
        try:
            return from_json(self.bytes(path).removeprefix(b"\xef\xbb\xbf"))
        except MalformedError as error:
            raise DatasetError(
                f"The file is not JSON: {error.problem}",
                where=f"{path}:{error.line or 1}",
                remedy="Name a file as its source publishes it.",
            ) from error

    def items(self, path: Path) -> Iterator[tuple[int, Any]]:
        """The elements of a JSON list, or the items of an object, with their numbers.

        Raises:
            DatasetError: the file is not JSON.
        """
        data = self.document(path)
        yield from enumerate(data.items() if isinstance(data, dict) else data, start=1)

    def csv(
        self, path: Path, columns: Sequence[str], delimiter: str = ","
    ) -> Iterator[tuple[int, list[str]]]:
        """The named columns of a CSV file's rows, each with its first line's number.

        Raises:
            DatasetError: the file cannot be read, or its first line lacks a column.
        """
        rows = self.records(path, list(self.lines(path)), delimiter)
        header = [name.strip().casefold() for name in next(rows, (1, []))[1]]
        if missing := [column for column in columns if column not in header]:
            raise DatasetError(
                f"The column {missing[0]!r} is missing",
                where=f"{path}:1",
                remedy="Name a file of this source.",
            )
        places = [header.index(column) for column in columns]
        for number, cells in rows:
            with self.row(path, number):
                values = [cells[place] for place in places]
                yield number, values


@dataclass(frozen=True)
class Source:
    """A public source.

    Args:
        name: As the script takes it.
        read: Adds the conversations of each part to a reader, and returns the flows.
        title, source, licence: For the card; ``source`` names the public repository.
        derived, left_out: What the labels are made from, and what the source does not label.
        layout: Finds the parts in the source's file or folder.
        out_of_scope_share: Share of messages that no flow serves, as far as the source states it.
    """

    name: str
    read: Callable[[PublicReader], Sequence[Flow]]
    title: str
    source: str
    licence: str
    derived: tuple[str, ...]
    left_out: tuple[str, ...]
    layout: Layout
    out_of_scope_share: float | None = None

    def convert(
        self,
        src: str | Path | None = None,
        *,
        out: str | Path,
        splits: Sequence[tuple[str, str | Path]] = (),
        seed: int = 0,
        dev_share: float = writer.DEV_SHARE,
        replace: bool = False,
    ) -> ImportReport:
        """Write the source's dataset folder.

        Args:
            src: The source's file or folder, as published. Next to ``splits``, only files that parts share are read
                from it.
            out: The folder.
            splits: Names (``train``, ``dev``, ``dev_a``, ``dev_b``, ``test``) and paths of the parts.
            seed: Of the division of dev, or of train where there is no dev part.
            dev_share: Share of train that is divided between dev_a and dev_b where there is no dev part.
            replace: Also write where a dataset is already.

        Raises:
            DatasetError: a part is missing, unknown, or has no readable row, or the folder cannot be written.
        """
        folder = Path(out)
        writer.claim(folder, replace=replace)
        place = None if src is None else existing(src, "SRC")
        named = splits or list(self.layout(place).items() if place else ())
        reader = PublicReader(named_parts(named), place)
        return writer.write_dataset(
            folder,
            reader,
            self.read(reader),
            kind=self.name,
            provenance=writer.Provenance(
                self.title,
                self.source,
                self.licence,
                f"python eval/benchmarks/importers {self.name}",
                self.derived,
                self.left_out,
            ),
            seed=seed,
            dev_share=dev_share,
            out_of_scope_share=self.out_of_scope_share,
        )


def source(**facts: Any) -> Callable[[Callable[[PublicReader], Sequence[Flow]]], Source]:
    """Make a source of a function that reads it; the arguments are those of :class:`Source`."""
    return lambda read: Source(read.__name__, read, **facts)


def named_files(suffix: str, inner: str = "") -> Layout:
    """The layout of sources with one file or folder for each part: ``train``, ``dev`` and ``test`` with a suffix.

    Args:
        suffix: Such as ``.csv``; empty for folders.
        inner: Folder inside the source in which the files may lie.
    """

    def layout(src: Path) -> dict[str, Path]:
        folder = src / inner if (src / inner).is_dir() else src
        files = {name: folder / f"{name}{suffix}" for name in ("train", "dev", "test")}
        return (
            {"train": src} if src.is_file() else {name: path for name, path in files.items() if path.exists()}
        )

    return layout


def one_part(*inner: str) -> Layout:
    """The layout of sources without parts: all of it is for training, from the first of some folders that is there.

    Args:
        inner: Folders inside the source.
    """
    return lambda src: {"train": next((src / name for name in inner if (src / name).is_dir()), src)}


def only_file(path: Path, pattern: str) -> Path:
    """A file, or the only one of a folder that a pattern matches.

    Raises:
        DatasetError: there is none, or more than one.
    """
    files = sorted(path.glob(pattern)) if path.is_dir() else [path]
    if len(files) != 1:
        raise DatasetError(
            f"The folder has {len(files)} files {pattern}", where=str(path), remedy="Name one."
        )
    return files[0]
