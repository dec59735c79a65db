"""Every listed tool as a vector of its search words: log counts times rarity, of length one.

The cosine of two is how alike they read. Needs numpy, scipy and scikit-learn (the extra `view`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duckdb

from synth.core.errors import BadInput
from synth.core.optional import package

if TYPE_CHECKING:
    import numpy as np

    Matrix = Any  # scipy has no types

EXTRA = "'toolloom[view]'"
CHUNK = 250
"""Rows of a product at a time: 250 x 100,000 similarities are up to 300 MB."""
SLACK = 1e-9
"""What rounding may cost a cosine."""
_FOUND = """
SELECT dense_rank() OVER (ORDER BY doc) - 1 AS tool, dense_rank() OVER (ORDER BY word) - 1 AS word,
       times FROM search_words ORDER BY doc, word
"""
_WORDS = "SELECT DISTINCT word FROM search_words ORDER BY word"
_TOOLS = """
SELECT t.tool, t.name, t.server, t.application IS NOT NULL
FROM search_tools s JOIN tools t USING (tool)
WHERE doc IN (SELECT doc FROM search_words) ORDER BY s.doc
"""


@dataclass(frozen=True, slots=True)
class Vectors:
    """Listed tools that have words."""

    tools: list[str]
    names: list[str]
    servers: list[str]
    synthetic: np.ndarray
    """(tools,) bool."""
    matrix: Matrix
    """(tools, words) sparse, rows of length one."""
    words: dict[str, int]
    """Column of each word."""

    @classmethod
    def of(cls, con: duckdb.DuckDBPyConnection) -> Vectors:
        """Read the words of a registry.

        Raises:
            BadInput: a package is missing, or there is no tool.
        """
        np = package("numpy", EXTRA)
        sparse = package("scipy.sparse", EXTRA)
        normalize = package("sklearn.preprocessing", EXTRA).normalize
        rows = con.execute(_TOOLS).fetchall()
        if not rows:
            raise BadInput("no tools are listed", where="registry", remedy="toolloom crawl SOURCE")
        found = con.execute(_FOUND).fetchnumpy()
        tools, words = found["tool"].astype(np.int64), found["word"].astype(np.int64)
        spread = np.bincount(words)
        rarity = np.log((1 + len(rows)) / (1 + spread))
        values = np.log1p(found["times"].astype(np.float64)) * rarity[words]
        shape = (len(rows), len(spread))
        matrix = normalize(sparse.csr_matrix((values, (tools, words)), shape=shape))
        tools_, names, servers, synthetic = map(list, zip(*rows, strict=True))
        columns = {row[0]: number for number, row in enumerate(con.execute(_WORDS).fetchall())}
        return cls(tools_, names, servers, np.array(synthetic, dtype=bool), matrix, columns)

    def alike(self, least: float) -> Iterator[tuple[int, Any, Any]]:
        """Yield each tool that is like others after it, with these and their cosines.

        Exact, and without a product of all with all: of each tool the commonest words are left out
        as long as they alone (at most the length of what they are) cannot make it alike to any
        other (the L2 bound of Anastasiu and Karypis 2014, L2AP, section 3).

        Args:
            least: cosine that counts as alike.

        Yields:
            Number of a tool; (n,) numbers of the others, rising; (n,) cosines.
        """
        np = package("numpy", EXTRA)
        telling, left_out = self._telling(least - SLACK)
        turned = telling.T.tocsr()
        for start in range(0, len(self.tools), CHUNK):
            partly = (self.matrix[start : start + CHUNK] @ turned).tocoo()
            possible = partly.data + left_out[partly.col] >= least - SLACK
            ones, others = partly.row[possible] + start, partly.col[possible]
            later = others > ones
            ones, others = ones[later], others[later]
            order = np.lexsort((others, ones))
            ones, others = ones[order], others[order]
            cosines = np.asarray(
                self.matrix[ones].multiply(self.matrix[others]).sum(axis=1)
            ).ravel()
            alike = cosines >= least
            ones, others, cosines = ones[alike], others[alike], cosines[alike]
            found, begins = np.unique(ones, return_index=True)
            ends = [*begins[1:], len(ones)][: len(found)]
            for one, begin, end in zip(found, begins, ends, strict=True):
                yield int(one), others[begin:end], cosines[begin:end]

    def _telling(self, least: float) -> tuple[Matrix, Any]:
        """Return the matrix without common words that tell less than `least`, and their lengths."""
        np = package("numpy", EXTRA)
        matrix = self.matrix
        tools = np.repeat(np.arange(len(self.tools)), np.diff(matrix.indptr))
        spread = np.bincount(matrix.indices, minlength=matrix.shape[1])
        order = np.lexsort((-spread[matrix.indices], tools))
        squares = np.cumsum(matrix.data[order] ** 2)
        before = np.concatenate(([0.0], squares))[matrix.indptr[:-1]]
        small = np.empty(len(order), dtype=bool)
        small[order] = squares - before[tools] < least**2
        left_out = np.sqrt(np.bincount(tools, (matrix.data**2) * small, minlength=len(self.tools)))
        telling = matrix.copy()
        telling.data[small] = 0
        telling.eliminate_zeros()
        return telling, left_out

    def nearest(self, of: Any, among: Any) -> tuple[Any, Any]:
        """Return for each tool of one kind the nearest of another kind.

        Args:
            of: (n,) numbers of tools.
            among: (m,) numbers of tools.

        Returns:
            (n,) numbers of the nearest, -1 where none shares a word; (n,) distances, 0 to 1.
        """
        np = package("numpy", EXTRA)
        others = self.matrix[among]
        found, distance = np.full(len(of), -1), np.ones(len(of))
        for start in range(0, len(of), CHUNK):
            product = (self.matrix[of[start : start + CHUNK]] @ others.T).tocsr()
            best = np.asarray(product.argmax(axis=1)).ravel()
            cosine = product.max(axis=1).toarray().ravel()
            shared = cosine > 0
            rows = np.arange(start, start + len(best))
            found[rows[shared]] = among[best[shared]]
            distance[rows[shared]] = 1 - np.minimum(1.0, cosine[shared])
        return found, distance
