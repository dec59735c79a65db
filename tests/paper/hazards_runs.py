"""Rows of `hazards.py`: k crash and resume, l cost and progress, r promises about whole runs."""

FAULTS = "core/test_llm_faults.py::test_"
FILES = "faults/test_files.py::test_"
KILLS = (
    "faults/test_kills.py::test_25_kills_and_10_interrupts_leave_what_an_uninterrupted_run_leaves"
)
REPLY = "core/test_llm_reply.py::test_"
STORM = "faults/test_storm.py::test_"

HAZARDS = {
    "k01": (
        "verifiers#803, verifiers#1376, verifiers#1564",
        "rows are appended behind a torn line, and the damage moves into the file",
        "the torn part is cut off before anything is written; cut anywhere, the run goes on",
        (
            "core/test_jsonl.py"
            "::test_rows_written_before_a_torn_line_are_all_read_and_the_tear_is_cut_off",
            FILES + "a_journal_torn_at_any_byte_of_its_last_line_loses_that_reply_only",
            FILES + "episodes_torn_at_any_byte_of_the_last_line_lose_that_one_only",
        ),
    ),
    "k02": (
        "hermes-agent#112575, bernstein#5919, TypeAgent#2769",
        "one fragment makes a file unreadable, and all of it is paid for again",
        "the episode that was torn is played again, and no other",
        (
            "synth/test_resume.py::test_a_torn_last_episode_is_the_only_one_that_is_played_again",
            FILES + "a_run_goes_on_after_its_last_line_was_torn",
        ),
    ),
    "k04": (
        "DataDesigner#525, DataDesigner#526",
        "the same command starts anew in another folder, or trusts what lies beside the data",
        "a run has a name; its rows count, whatever else is missing; other settings are refused",
        (
            FILES + "a_finished_run_asks_for_nothing_and_an_unfinished_one_for_nothing_twice",
            FILES + "other_settings_are_refused_with_what_differs_and_limits_are_no_settings",
        ),
    ),
    "k05": (
        "distilabel#1065, distilabel#648, distilabel#457",
        "what Ctrl-C interrupted cannot be resumed, or comes back under a wrong name",
        "interrupted at any moment, a run ends with the rows of one that was not",
        (KILLS, "synth/test_resume.py::test_ctrl_c_ends_cleanly_with_130_and_says_how_to_resume"),
    ),
    "k06": (
        "distilabel#587, distilabel#864",
        "one failed item shifts all that follow against each other",
        "all is joined by identity: an episode that failed is marked, the others keep their tasks",
        (STORM + "every_episode_ends_in_a_named_state",),
    ),
    "k08": (
        "duckdb#17158, duckdb#13558, verinote#169, builder#644",
        "nothing can be looked at while something writes",
        "the registry is open while a run goes on; a lock names its process and what to do",
        (
            FILES + "a_second_process_is_refused_and_names_the_first_and_the_registry_stays_open",
            "core/test_store.py::test_a_lock_held_elsewhere_names_process_command_and_remedy",
            "core/test_store.py::test_many_processes_read_at_once",
        ),
    ),
    "k09": (
        "duckdb#8592",
        "a write-ahead log that was cut off keeps a database from opening",
        "it opens; the last blocks are gone, which the files still have",
        ("core/test_store.py::test_a_log_that_was_cut_off_loses_the_last_blocks_and_nothing_else",),
    ),
    "k10": (
        "distillery#650, distillery#349, gizmosql#53, hitkeep#259",
        "a damaged log fails every start until somebody deletes it by hand",
        "said once and put aside with its database, not deleted; the next command works",
        ("core/test_store.py::test_a_damaged_registry_is_kept_aside_and_the_next_command_works",),
    ),
    "k13": (
        "litData#403",
        "a file that is written in place is found half written",
        "the old or the new one, after any kill and on a full disk",
        (
            "core/test_jsonl.py"
            "::test_a_file_is_the_old_or_the_new_one_after_50_kills_while_it_is_written",
            "core/test_jsonl.py::test_an_atomic_write_keeps_the_old_file_when_the_new_one_fails",
        ),
    ),
    "l01": (
        "NeoGraph#105, openaidy#405, mirascope#658, agents-at-scale-ark#524",
        "tokens that nobody told are shown as 0",
        "unknown is unknown, also of what was under way at a kill; what is told is summed exactly",
        (
            REPLY + "unknown_usage_is_unknown_and_never_zero",
            FAULTS + "the_books_equal_the_endpoints_ledger",
            "core/test_llm_ledger.py::test_what_is_announced_and_never_entered_counts_as_unknown",
            "synth/test_progress.py::test_costs_are_told_by_role_and_model_and_unknown_is_not_zero",
        ),
    ),
    "l03": (
        "DataDesigner#185",
        "a run stops for 4 % of failures where 50 % are allowed",
        "it stops for its share of a full window of failures and for nothing else",
        (
            "synth/test_giving_up.py"
            "::test_21_failures_of_512_in_any_order_stop_nothing_and_60_percent_do",
            "synth/test_giving_up.py"
            "::test_a_run_stops_for_its_share_of_failures_and_for_no_other_order_of_them",
        ),
    ),
    "l06": (
        "the Inspect manual on errors",
        "what was tried again is another sample than what worked at once",
        "the report tells how many passed of either",
        (
            "synth/test_progress.py::test_retried_episodes_are_told_from_others",
            "synth/test_giving_up.py"
            "::test_an_endpoint_that_is_down_ends_the_run_and_costs_no_episode",
        ),
    ),
    "r1": (
        "",
        "episodes are lost or doubled by a crash",
        "after 25 kills and 10 interrupts of 300 episodes each has one record, as without them",
        (KILLS,),
    ),
    "r2": (
        "",
        "a crash costs more than what was under way",
        "asked again is at most one call of each episode in flight at a kill",
        (KILLS,),
    ),
    "r3": (
        "",
        "faults end in no state, or in the data",
        "400 episodes at 30 % faults: all in a named state, no bad row, few tries, none too early",
        (
            STORM + "nearly_every_fault_was_met",
            STORM + "every_episode_ends_in_a_named_state",
            STORM + "nothing_that_a_fault_did_is_exported",
            STORM + "few_attempts_are_made_for_a_call",
            "faults/test_putting_off.py::test_nobody_asks_before_the_endpoint_allows_it",
        ),
    ),
    "r4": (
        "",
        "data depends on how many play at once",
        "the same bytes with 1, 8 and 64 at once and over resuming",
        (FILES + "the_dataset_does_not_depend_on_how_many_play_at_once_nor_on_resuming",),
    ),
    "r5": (
        "",
        "long runs grow until the machine ends them",
        "an episode adds under 1 KB of memory (in `make soak` over 10,000: 0.6, asking a model "
        "0.9), and no file, thread or process",
        (
            "faults/test_memory.py::test_an_episode_adds_less_than_a_kilobyte_to_the_memory_of_a_run",
            "faults/test_memory.py::test_a_run_opens_no_more_files_and_threads_the_longer_it_is",
            "faults/test_memory.py::test_a_run_leaves_no_process_behind",
        ),
    ),
    "r12": (
        "",
        "what is told of cost and counts is not what happened",
        "requests, tokens and money equal the endpoint's own ledger; what is unknown says so",
        (
            STORM + "the_books_equal_the_endpoints_ledger_to_the_token",
            FAULTS + "the_books_equal_the_endpoints_ledger",
            KILLS,
        ),
    ),
}
