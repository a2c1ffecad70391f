"""tree-sitter behind two functions: parse a piece of code, and ask a rule's query about it.

Grammars are the single-language wheels, loaded on first use: nothing is downloaded. Parsing stops after
`MAX_BYTES` of input, because error recovery is slow on hostile text.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

from audit.errors import EctypeError
from detect.rule_set import Condition, QueryCondition, Rule

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Parser, Query, Tree
else:
    Tree = object

MAX_BYTES = 32 * 1024
MAX_MATCHES = 64


@lru_cache(maxsize=16)
def _language(name: str) -> Language:
    import importlib

    import tree_sitter

    module = importlib.import_module("tree_sitter_" + {"shell": "bash"}.get(name, name))
    return tree_sitter.Language(module.language())


@lru_cache(maxsize=16)
def _parser(name: str) -> Parser:
    import tree_sitter

    return tree_sitter.Parser(_language(name))


@lru_cache(maxsize=256)
def _compiled(language: str, source: str) -> Query:
    import tree_sitter

    return tree_sitter.Query(_language(language), source)


def check_queries(rules: Iterable[Rule]) -> None:
    """Compile every query of the rules; raises EctypeError naming the rule whose query is wrong."""
    for rule in rules:
        for query in _queries(rule.when):
            try:
                _compiled(query.language, query.source)
            except ValueError as error:
                raise EctypeError(
                    f"bad tree-sitter query: {error}", where=f"rule {rule.id}", remedy="correct the query"
                ) from error


def _queries(condition: Condition) -> list[QueryCondition]:
    found = [condition.query] if condition.query is not None else []
    for part in condition.parts:
        found += _queries(part)
    return found


def parse(language: str, data: bytes) -> Tree:
    """The syntax tree of the first `MAX_BYTES` of `data`; a reader and the rules' queries share one."""
    return _parse(language, data[:MAX_BYTES])


@lru_cache(maxsize=4)
def _parse(language: str, data: bytes) -> Tree:
    return _parser(language).parse(data)


@lru_cache(maxsize=32)
def roles(language: str, kinds: tuple[tuple[str, str], ...]) -> dict[int, str]:
    """What each kind of node is taken for, by the number that the grammar has for it: nodes tell that fastest."""
    wanted, grammar = dict(kinds), _language(language)
    numbers = range(grammar.node_kind_count)
    named = {n: grammar.node_kind_for_id(n) or "" for n in numbers if grammar.node_kind_is_named(n)}
    return {number: wanted[kind] for number, kind in named.items() if kind in wanted}


def collect(language: str, data: bytes, kinds: tuple[tuple[str, str], ...]) -> dict[str, list[Node]]:
    """Parse `data` and return its nodes of the given kinds under the names that `kinds` has for them, outer ones first.

    What is called `leaf` is left out, with all that stands in it.
    Queries would take quadratic time on deeply nested code, a walk does not.
    """
    role = roles(language, kinds).get
    found: dict[str, list[Node]] = {name: [] for _, name in kinds}
    stack = [parse(language, data).root_node]
    pop, push = stack.pop, stack.extend
    while stack:
        node = pop()
        name = role(node.kind_id)
        if name is not None:
            if name == "leaf":
                continue
            found[name].append(node)
        children = node.named_children
        if children:
            push(children[::-1])
    return found


def captures(tree: Tree, query: QueryCondition) -> list[tuple[int, int]]:
    """Byte ranges captured as `@hit`, in order; names starting with `_` serve predicates only."""
    import tree_sitter

    cursor = tree_sitter.QueryCursor(_compiled(query.language, query.source), match_limit=MAX_MATCHES)
    spans = []
    for name, nodes in cursor.captures(tree.root_node).items():
        if not name.startswith("_"):
            spans += [(node.start_byte, node.end_byte) for node in nodes]
    return sorted(spans)
