"""The command line `ectype`. It reads what the user wrote, calls one function, and says what came of it.

Errors that a user can do something about are printed without a traceback, with exit status 2; an interrupt is 130.
Everything heavy is imported inside the command that needs it: `ectype --help` is fast.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from audit.errors import EctypeError, Interrupted

app = typer.Typer(
    name="ectype",
    help="Train coding agents to rebuild programs from their behaviour, on one machine or on Slurm.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
image_app = typer.Typer(help="The container image of the sandboxes.", no_args_is_help=True)
tasks_app = typer.Typer(help="Task suites.", no_args_is_help=True)
rules_app = typer.Typer(help="The anti-cheat rules.", no_args_is_help=True)
app.add_typer(image_app, name="image")
app.add_typer(tasks_app, name="tasks")
sandbox_app = typer.Typer(help="Commands of your own in the agent's sandbox.", no_args_is_help=True)
app.add_typer(rules_app, name="rules")
app.add_typer(sandbox_app, name="sandbox")
judge_app = typer.Typer(help="The judge, second stage of the anti-cheat.", no_args_is_help=True)
app.add_typer(judge_app, name="judge")

samples_app = typer.Typer(help="What was blocked or flagged, and what people say about it.", no_args_is_help=True)
app.add_typer(samples_app, name="samples")

ConfigArgument = Annotated[Path, typer.Argument(help="Run config, such as configs/micro.yaml.")]
StepsOption = Annotated[int | None, typer.Option(min=1, help="PPO steps, instead of trainer.steps of the config.")]
RunOption = Annotated[Path | None, typer.Option("--run", help="Run folder; default: runs/<name of the config>.")]
SiteOption = Annotated[
    str | None, typer.Option(help="Name or path of a site config; default: the one of this cluster.")
]
RulesOption = Annotated[Path | None, typer.Option("--rules", help="Folder of rules; default: those that ship.")]
RunArgument = Annotated[Path, typer.Argument(help="Run folder.")]
LimitsOption = Annotated[
    list[str] | None, typer.Option(help="name=value of docs/sandbox.md, as in wall_s=5,memory_bytes=512M; repeatable.")
]
FilesOption = Annotated[
    Path | None, typer.Option(exists=True, file_okay=False, help="Folder whose regular files are copied to /work.")
]

PackagesOption = Annotated[
    Path | None, typer.Option(exists=True, file_okay=False, help="The site's folder of packages, as its config has it.")
]


def say(message: str) -> None:
    """Tell the user something; results go to stdout, this to stderr."""
    print(message, file=sys.stderr, flush=True)


@app.command()
def train(config: ConfigArgument, steps: StepsOption = None, run: RunOption = None) -> None:
    """Train on this machine, with live progress. Started again, it resumes."""
    _train(config, steps, run, site="local")


@app.command()
def submit(
    config: ConfigArgument,
    site: SiteOption = None,
    steps: StepsOption = None,
    run: RunOption = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Stay until the run has ended; an interrupt cancels it.")
    ] = False,
) -> None:
    """Submit a run: controller, sandbox array and trainer. Submitted again, it resumes."""
    if wait:
        _train(config, steps, run, site)
        return
    from jobs.run_config import load_run_config
    from jobs.runs import start
    from jobs.site_config import load_site

    run_config = load_run_config(config, steps=steps)
    folder, jobs = start(run_config, load_site(site), run or Path("runs") / run_config.name, say=say)
    for job in jobs.jobs:
        print(f"{job.name:12} {job.id:>10}  {job.log}")
    print(f"\nFollow it: ectype status {folder.path}\nEnd it:    ectype cancel {folder.path}")


def _train(config: Path, steps: int | None, run: Path | None, site: str | None) -> None:
    from jobs.progress import follow
    from jobs.run_config import load_run_config
    from jobs.runs import run_to_end
    from jobs.site_config import load_site

    run_config = load_run_config(config, steps=steps)
    folder = run_to_end(
        run_config,
        load_site(site),
        run or Path("runs") / run_config.name,
        say=say,
        follow=follow,
        resume=shlex.join(["ectype", *sys.argv[1:]]),
    )
    print(f"Done: {folder.path}\nRead it: ectype report {folder.path}")


@app.command()
def status(run: RunArgument) -> None:
    """Show the jobs of a run, how far it is, and its queues."""
    from jobs.run_dir import RunDir
    from jobs.status import show

    show(RunDir.open(run))


@app.command()
def cancel(run: RunArgument) -> None:
    """End a run; the trainer saves its state first. Start it again to resume."""
    from jobs.run_dir import RunDir
    from jobs.watch import cancel as cancel_run
    from jobs.watch import jobs_of

    folder = RunDir.open(run)
    ended = cancel_run(folder, jobs_of(folder))
    print(f"Ended: {', '.join(ended)}" if ended else "Nothing of this run was alive.")


@app.command()
def check(site: SiteOption = None) -> None:
    """Check by trying what ectype needs on this machine. Exit status 1 when something is missing."""
    from jobs.check import run_checks
    from jobs.site_config import load_site

    if not run_checks(load_site(site)):
        raise typer.Exit(1)


@app.command()
def demo(
    folder: Annotated[Path, typer.Option(help="Where both runs and the report go.")] = Path("runs/demo"),
    seed: Annotated[int, typer.Option(help="Seed of the experiment.")] = 0,
    steps: StepsOption = None,
    config: Annotated[Path | None, typer.Option(help="Run config of both arms; default: configs/demo.yaml.")] = None,
) -> None:
    """Train one tiny policy twice on tasks that invite to cheat: anti-cheat off, then on. Minutes on two cores."""
    from rich.console import Console
    from rich.table import Table

    from jobs.demo import CONFIG, run_demo, three_episodes
    from jobs.progress import follow
    from jobs.report import write_report

    summary = run_demo(
        folder,
        seed=seed,
        steps=steps,
        config=config or CONFIG,
        resume=shlex.join(["ectype", *sys.argv[1:]]),
        say=say,
        follow=follow,
    )
    table = Table("", "anti-cheat off", "anti-cheat on", title="last fifth of the episodes", min_width=60)
    table.add_row("honest success", f"{summary.off_success:.0%}", f"{summary.on_success:.0%}")
    table.add_row("cheat attempts", f"{summary.off_cheat_rate:.0%}", f"{summary.on_cheat_rate:.0%}")
    console = Console()
    console.print(table)
    console.print(
        f"Both started from the same policy, with {summary.warm_success:.0%} honest success.", highlight=False
    )
    page = write_report(
        {"anti-cheat off": folder / "off", "anti-cheat on": folder / "on"},
        folder / "report.html",
        title="What an anti-cheat is for",
        episodes=three_episodes(folder),
    )
    print(f"Curves, and three episodes to read: {page}")


@app.command()
def trace(
    run: RunArgument,
    episode: Annotated[str, typer.Argument(help="Id of the episode, as in the audit log.")],
    step: Annotated[int, typer.Argument(help="Number of the step, from 0.")],
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Explain what was decided about an action: evidence, rule, fake, judge, reward."""
    from jobs.run_dir import RunDir
    from jobs.trace_command import show

    show(RunDir.open(run), episode, step, as_json=json)


@app.command()
def report(run: RunArgument) -> None:
    """Write report.html of a run: curves, and episodes to read step by step."""
    from jobs.report import write_report
    from jobs.run_dir import RunDir

    folder = RunDir.open(run)
    print(write_report({folder.config().name: folder.path}, folder.path / "report.html", title=folder.config().name))


@app.command()
def export(run: RunArgument, out: Annotated[Path, typer.Argument(help="Folder to write; must not exist.")]) -> None:
    """Write the policy of a run's newest checkpoint as a Hugging Face folder."""
    from jobs.run_dir import RunDir
    from rl.export import export_policy

    folder = RunDir.open(run)
    print(f"{out}: the actor of {export_policy(folder.config(), folder.checkpoints, out).name}")


@image_app.command("build")
def image_build() -> None:
    """Build the base image from this machine's own packages, if it is not there yet."""
    from containers.image import ensure_image

    print(ensure_image(progress=say))


@tasks_app.command("list")
def tasks_list() -> None:
    """List the suites that ship."""
    from tasks.build import list_suites

    for name, title in list_suites().items():
        print(f"{name:14} {title}")


@tasks_app.command("build")
def tasks_build(suite: Annotated[str, typer.Argument(help="Name of a suite, or folder of one.")]) -> None:
    """Build a suite by running its reference programs, if it is not there yet."""
    from tasks.build import ensure_suite

    print(ensure_suite(suite, progress=say))


@tasks_app.command("check")
def tasks_check(
    suites: Annotated[list[str] | None, typer.Argument(help="Suites or folders; default: all that ship.")] = None,
) -> None:
    """Try every task of a suite: its reference passes, doing nothing fails, nothing leaks. Exit status 1 if not."""
    from tasks.build import list_suites
    from tasks.check import check_suites

    findings = check_suites(suites or list(list_suites()), progress=say)
    problems = [finding for finding in findings if not finding.ok]
    for finding in problems:
        print(f"{finding.suite}/{finding.task}: {finding.check}: {finding.detail}")
    print(f"{len(findings)} checks, {len(problems)} problems")
    if problems:
        raise typer.Exit(1)


@rules_app.command("test")
def rules_test(rules: RulesOption = None) -> None:
    """Judge the examples beside every rule. Exit status 1 when one is judged wrongly."""
    from detect.commands import test_rules

    if not test_rules(rules):
        raise typer.Exit(1)


@rules_app.command("list")
def rules_list(rules: RulesOption = None) -> None:
    """List the rules."""
    from detect.commands import list_rules

    list_rules(rules)


@rules_app.command("scan")
def rules_scan(
    file: Annotated[
        str | None, typer.Argument(help="File to judge as one action, or - for standard input.", show_default=False)
    ] = None,
    language: Annotated[str | None, typer.Option(help="shell, python, c, ...; default: by the name.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON.")] = False,
    batch: Annotated[
        str | None, typer.Option(help='JSONL of {"action": ..., "language": ...}: one JSON verdict for each line.')
    ] = None,
    rules: RulesOption = None,
) -> None:
    """Judge a file, or a batch of actions. Exit status 0: allowed, 1: blocked, 3: to be reviewed, 2: error."""
    from detect.commands import scan, scan_batch

    if (file is None) == (batch is None):
        raise EctypeError("give a file to judge or --batch, one of them", remedy="ectype rules scan main.py")
    if batch is not None:
        raise typer.Exit(scan_batch(batch, rules_dir=rules))
    assert file is not None
    raise typer.Exit(scan(file, language=language, as_json=json, rules_dir=rules))


SetArgument = Annotated[str, typer.Argument(help="Folder of rules, `default`, a name of the site, or kept in the run.")]
WhyOption = Annotated[str, typer.Option(help="Why; goes on record.")]
WaitOption = Annotated[float, typer.Option("--wait", min=0, help="Seconds to wait until every worker has taken it.")]


@rules_app.command("activate")
def rules_activate(run: RunArgument, rules: SetArgument, why: WhyOption = "", wait_s: WaitOption = 10.0) -> None:
    """Put a rule set in force in a run, also while it runs. Exit status 1 when a worker has not taken it."""
    from jobs.rules_command import activate
    from jobs.run_dir import RunDir

    raise typer.Exit(activate(RunDir.open(run), rules, why=why, wait_s=wait_s))


@rules_app.command("rollback")
def rules_rollback(run: RunArgument, why: WhyOption = "", wait_s: WaitOption = 10.0) -> None:
    """Put back the rule set that was in force before. Exit status 1 when a worker has not taken it."""
    from jobs.rules_command import rollback
    from jobs.run_dir import RunDir

    raise typer.Exit(rollback(RunDir.open(run), why=why, wait_s=wait_s))


@rules_app.command("diff")
def rules_diff(
    old: SetArgument,
    new: SetArgument,
    over: Annotated[Path | None, typer.Option(help="Run folder: what would change on its past episodes.")] = None,
    processes: Annotated[int | None, typer.Option(min=1, help="Processes; default: one per core.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Compare two rule sets, and what they say about the past episodes of a run."""
    from jobs.rules_command import diff
    from jobs.run_dir import RunDir

    diff(old, new, over=None if over is None else RunDir.open(over), processes=processes, as_json=json)


@rules_app.command("status")
def rules_status(
    run: RunArgument, json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False
) -> None:
    """Show which rule sets were in force in a run, since when and why, and by which one each worker works."""
    from jobs.rules_command import status
    from jobs.run_dir import RunDir

    status(RunDir.open(run), as_json=json)


JudgeConfigOption = Annotated[
    Path | None, typer.Option("--config", help="Run config whose `judge` section says which model, prompt and so on.")
]
ModelOption = Annotated[str | None, typer.Option(help="Name at the endpoint, a Hugging Face folder, or smollm2.")]
EndpointOption = Annotated[str | None, typer.Option(help="OpenAI-compatible endpoint up to /v1; else one is started.")]
PromptOption = Annotated[str | None, typer.Option(help="Prompt that ships, or a prompt file.")]


@judge_app.command("score")
def judge_score(
    file: Annotated[str, typer.Argument(help="File to judge as one action, or - for standard input.")],
    config: JudgeConfigOption = None,
    model: ModelOption = None,
    endpoint: EndpointOption = None,
    prompt: PromptOption = None,
    calibration: Annotated[str | None, typer.Option(help="File of `ectype judge calibrate`.")] = None,
    language: Annotated[str | None, typer.Option(help="shell, python, c, ...; default: by the name.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the judgement as JSON.")] = False,
) -> None:
    """Ask the judge about a file. Exit status 0: clear, 1: flagged, 3: uncertain, 2: error."""
    from jobs.judge_command import score
    from jobs.run_config import judge_config

    given = judge_config(config, model=model, endpoint=endpoint, prompt=prompt, calibration=calibration)
    raise typer.Exit(score(file, given, language=language, as_json=json, say=say))


@judge_app.command("calibrate")
def judge_calibrate(
    samples: Annotated[Path, typer.Argument(help='JSONL of {"action", "language", "label": "cheat" or "benign"}.')],
    out: Annotated[Path, typer.Option(help="File to write.")] = Path("calibration.json"),
    config: JudgeConfigOption = None,
    model: ModelOption = None,
    endpoint: EndpointOption = None,
    prompt: PromptOption = None,
    method: Annotated[str, typer.Option(help="platt (tens of samples) or isotonic (hundreds).")] = "platt",
    prior: Annotated[
        float | None, typer.Option(min=0.0001, max=0.9999, help="Share of cheats among what will be judged.")
    ] = None,
) -> None:
    """Fit a calibration on labelled samples, so that the judge's probabilities mean what they say."""
    from jobs.judge_command import calibrate
    from jobs.run_config import judge_config

    if method not in ("platt", "isotonic"):
        raise EctypeError(f"unknown method {method!r}", remedy="use platt or isotonic")
    given = judge_config(config, model=model, endpoint=endpoint, prompt=prompt, calibration=None)
    quality = calibrate(samples, out, given, method=method, prior=prior, say=say).quality
    print(
        f"{out}: AUROC {quality.auroc:.3f}, Brier {quality.brier_raw:.3f} -> {quality.brier:.3f}, "
        f"calibration error {quality.expected_error_raw:.3f} -> {quality.expected_error:.3f}"
    )


StoreArgument = Annotated[Path, typer.Argument(help="Run folder, or the folder of a sample store.")]


@samples_app.command("list")
def samples_list(
    store: StoreArgument,
    state: Annotated[str | None, typer.Option(help="Only suspected, confirmed or false_positive ones.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print each as one JSON line.")] = False,
) -> None:
    """List the samples, oldest first."""
    from jobs.samples_command import open_store, show_list

    show_list(open_store(store), state=state, as_json=json)


@samples_app.command("review")
def samples_review(store: StoreArgument) -> None:
    """Look at suspected samples one by one and label them; goes on where it was left."""
    from rich.console import Console

    from jobs.samples_command import open_store, pressed_keys, review

    done = review(open_store(store), pressed_keys(), console=Console(highlight=False, soft_wrap=True))
    print(", ".join(f"{count} {what}" for what, count in done.items() if count) or "nothing was labelled")


@samples_app.command("label")
def samples_label(
    store: StoreArgument,
    sample: Annotated[str, typer.Argument(help="Id of the sample, or its first digits.")],
    state: Annotated[str, typer.Argument(help="suspected, confirmed or false_positive.")],
    note: Annotated[str, typer.Option(help="Why; goes on record.")] = "",
) -> None:
    """Label one sample."""
    from jobs.samples_command import open_store, put_label

    put_label(open_store(store), sample, state, note=note)


@samples_app.command("export")
def samples_export(
    store: StoreArgument,
    out: Annotated[Path, typer.Argument(help="JSONL file to write.")],
    supervised: Annotated[bool, typer.Option(help="Chats of the judge's prompt with the right answer.")] = False,
    prompt: PromptOption = None,
    record_bytes: Annotated[int, typer.Option(min=1000, help="Longest record in a chat.")] = 24_000,
) -> None:
    """Write the labelled samples as data: for `ectype judge calibrate`, or --supervised for fine-tuning."""
    from detect.judge_prompt import DEFAULT_PROMPT, load_prompt
    from jobs.samples_command import export, open_store

    shown = load_prompt(prompt or DEFAULT_PROMPT)
    export(open_store(store), out, supervised=supervised, prompt=shown, record_bytes=record_bytes)


SamplesArgument = Annotated[
    list[Path], typer.Argument(help='JSONL files of {"action", "language", "label": "cheat" or "benign"}.')
]
LimitOption = Annotated[
    int | None,
    typer.Option(min=40, help="Use at most so many samples, in every language as many cheats as honest ones."),
]
RecordBytesOption = Annotated[int, typer.Option(min=100, help="Longest record of a sample that the model is given.")]
ThreadsOption = Annotated[int, typer.Option(min=0, help="CPU threads; 0 lets torch decide.")]


@judge_app.command("tune")
def judge_tune(
    samples: SamplesArgument,
    model: Annotated[str, typer.Option(help="A Hugging Face folder, or smollm2.")],
    out: Annotated[Path, typer.Option(help="Folder to write; must not exist.")],
    prompt: Annotated[str, typer.Option(help="Prompt that the judge is tuned for; one without a reason.")] = "terse-2",
    held_out: Annotated[str, typer.Option(help="Share of the patterns that is held out, or a JSONL file.")] = "0.3",
    validation: Annotated[float, typer.Option(min=0.05, max=0.5, help="Share for early stopping.")] = 0.15,
    limit: LimitOption = None,
    record_bytes: RecordBytesOption = 1000,
    prior: Annotated[
        float | None, typer.Option(min=0.0001, max=0.9999, help="Share of cheats among what will be judged.")
    ] = None,
    promote_to: Annotated[
        Path | None, typer.Option(help="Link that is pointed at the new judge if it is better.")
    ] = None,
    epochs: Annotated[int, typer.Option(min=1, help="Most passes over the samples.")] = 4,
    patience: Annotated[int, typer.Option(min=1, help="Stop after so many epochs without a better one.")] = 2,
    lr: Annotated[float, typer.Option(min=0, help="Highest learning rate.")] = 1e-4,
    batch_tokens: Annotated[int, typer.Option(min=64, help="Tokens of one optimizer step, and of one pack.")] = 4096,
    train_layers: Annotated[
        int | None, typer.Option(min=1, help="Only the last so many layers learn; what is below is computed once.")
    ] = None,
    tp: Annotated[int, typer.Option(min=1, help="Tensor-parallel ranks, under torchrun.")] = 1,
    threads: ThreadsOption = 0,
    seed: Annotated[int, typer.Option(min=0, help="Of the order of the samples.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print judge.json.")] = False,
) -> None:
    """Fine-tune a judge on labelled samples; promote it if it is better. Exit status 0: better, 3: not, 2: error."""
    import msgspec

    from jobs.judge_tune import BETTER, NOT_BETTER, Options, report_of, tune_judge
    from rl.verdicts import TuneConfig

    config = TuneConfig(
        epochs=epochs,
        patience=patience,
        learning_rate=lr,
        batch_tokens=batch_tokens,
        train_layers=train_layers,
        seed=seed,
    )
    card = tune_judge(
        Options(
            samples=samples,
            model=model,
            out=out,
            prompt=prompt,
            held_out=_share_or_file(held_out),
            validation=validation,
            limit=limit,
            record_bytes=record_bytes,
            prior=prior,
            promote_to=promote_to,
            tp=tp,
            threads=threads,
            tune=config,
        ),
        say=say,
    )
    print(msgspec.json.encode(card).decode() if json else report_of(card, out, promote_to))
    raise typer.Exit(BETTER if card.better else NOT_BETTER)


def _share_or_file(told: str) -> float | Path:
    try:
        share = float(told)
    except ValueError:
        return Path(told)
    if not 0 < share < 0.9:
        raise EctypeError(f"--held-out {told} is no share between 0 and 0.9")
    return share


@judge_app.command("evaluate")
def judge_evaluate(
    samples: SamplesArgument,
    model: Annotated[str, typer.Option(help="A Hugging Face folder, such as one of `judge tune`, or smollm2.")],
    prompt: PromptOption = None,
    held_out: Annotated[
        float | None, typer.Option(min=0.01, max=0.9, help="Only the samples that a tuning with this share never saw.")
    ] = None,
    limit: LimitOption = None,
    record_bytes: RecordBytesOption = 1000,
    threads: ThreadsOption = 0,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure a judge on labelled samples: AUROC, recall at 1 % and 5 % false positives."""
    import msgspec

    from jobs.judge_tune import evaluate_judge, report_of_evaluation

    found = evaluate_judge(
        samples,
        model=model,
        prompt=prompt,
        held_out=held_out,
        limit=limit,
        record_bytes=record_bytes,
        threads=threads,
        say=say,
    )
    if json:
        print(msgspec.json.encode(found).decode())
    else:
        print(report_of_evaluation(found))


@sandbox_app.command("run")
def sandbox_run(
    command: Annotated[list[str], typer.Argument(help="Program and arguments, after --.")],
    limits: LimitsOption = None,
    files: FilesOption = None,
    packages: PackagesOption = None,
    stdin: Annotated[Path | None, typer.Option(help="File fed to the command, - for standard input.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")] = False,
) -> None:
    """Run one command in a fresh sandbox. Exit status: the command's; 124 timeout, 125 the sandbox broke."""
    from jobs.sandbox_command import parse_limits, run_command

    chosen = parse_limits(limits or ())
    raise typer.Exit(run_command(command, limits=chosen, files=files, packages=packages, stdin=stdin, as_json=json))


@sandbox_app.command("conformance")
def sandbox_conformance(
    names: Annotated[list[str] | None, typer.Argument(help="Checks to run; default: all but the slow ones.")] = None,
    slow: Annotated[bool, typer.Option("--slow", help="Also those that move gigabytes.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check that sandboxes on this machine do all that is promised of them. Exit status 0: all pass, 1: not."""
    from jobs.sandbox_conformance import conformance

    raise typer.Exit(conformance(names or (), slow=slow, as_json=json))


@sandbox_app.command("shell")
def sandbox_shell(limits: LimitsOption = None, files: FilesOption = None, packages: PackagesOption = None) -> None:
    """Type commands into a fresh sandbox; each runs as an action of an agent would."""
    from jobs.sandbox_command import parse_limits, run_shell

    raise typer.Exit(run_shell(limits=parse_limits(limits or ()), files=files, packages=packages))


def main(arguments: list[str] | None = None) -> int:
    """Entry point of `ectype`; returns the exit status."""
    try:
        app(args=arguments)
    except Interrupted as error:
        say(str(error))
        return error.status
    except EctypeError as error:
        say(f"error: {error}")
        return 2
    except SystemExit as leave:
        return leave.code if isinstance(leave.code, int) else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
