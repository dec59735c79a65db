"""Rows of `hazards.py`: a clients of models, d simulated users, f faults of endpoints."""

CLIENT = "core/test_llm_client.py::test_"
FAULTS = "core/test_llm_faults.py::test_"
FORMATS = "core/test_formats_contract.py::test_"
PATIENCE = "core/test_llm_patience.py::test_"
PLAY = "synth/test_play.py::test_"
REPLY = "core/test_llm_reply.py::test_"
STORM = "faults/test_storm.py::test_"
STREAM = "core/test_llm_stream.py::test_"
TRANSPORT = "core/test_llm_transport.py::test_"
USER = "simulators/test_users_model.py::test_"
WITHHELD = "what_was_withheld_or_cannot_be_read_ends_the_episode_and_never_passes"

HAZARDS = {
    "a01": (
        "vllm#18412",
        "calls in a stream come without the ids they have otherwise",
        "each call gets an id of its own, in one reply and over the conversation; results name it",
        (
            STREAM + "any_chunking_by_any_habit_gives_the_same_calls",
            FAULTS + "a_repair_is_recorded",
            PLAY + "a_model_plays_through_the_llm_protocol_with_tools_and_unique_ids",
            STORM + "nothing_that_a_fault_did_is_exported",
        ),
    ),
    "a02": (
        "lmdeploy#3412",
        "a second call reuses the index of the first, and clients glue the two together",
        "two calls stay two, told apart by id, name and finished arguments",
        (
            STREAM + "pieces_of_calls_are_neither_glued_nor_split",
            FAULTS + "what_was_said_comes_as_it_was_said",
        ),
    ),
    "a04": (
        "vllm#10395, vllm#10589",
        "a reader of streams loses calls depending on where the network cut",
        "any cut gives the same reply: inside a character, an escape, a key, a byte a piece",
        (
            STREAM + "any_chunking_by_any_habit_gives_the_same_calls",
            STREAM + "reading_ends_at_the_mark_however_the_network_cut_it",
            STREAM + "a_character_in_two_halves_is_one_character_and_no_repair",
            FAULTS + "what_was_said_comes_as_it_was_said",
        ),
    ),
    "a05": (
        "vllm#27701",
        "of nested arguments the inner object is taken for the call",
        "the outermost call is read, whatever is nested in it",
        (FORMATS + "nested_braces_keep_the_outermost_call",),
    ),
    "a07": (
        "mlx-lm#1448",
        "two calls in a row are read as one, fail, and an empty turn comes of it",
        "all calls are kept, and the words behind them; what cannot be read is a named outcome",
        (
            FORMATS + "two_calls_are_two_calls_whatever_is_between_and_after",
            "core/test_llm_open.py::test_text_that_begins_a_call_and_is_none_is_a_named_outcome",
        ),
    ),
    "a09": (
        "ogx#1169, litellm-vscode-chat#281",
        "arguments that are an empty text break the turn of a tool without parameters",
        "they are an empty object; a tool that needs more says so to the model",
        (
            REPLY + "arguments_are_repaired_only_where_they_have_one_meaning",
            PLAY + "a_call_without_any_arguments_is_told_what_it_lacks",
            "simulators/test_sql_calls.py::test_wrong_arguments_name_the_place",
        ),
    ),
    "a10": (
        "kimi-cli#2572, opencode#8249, pi#9931",
        "lists and objects arrive as JSON text inside of JSON, and validation never ends",
        "decoded once where the schema wants a list or an object, and noted; text stays text",
        (
            REPLY + "arguments_are_repaired_only_where_they_have_one_meaning",
            "core/test_formats_arguments.py::test_a_value_encoded_twice_is_decoded_once",
            "core/test_formats_arguments.py::test_what_may_be_text_or_does_not_fit_stays_as_it_is",
        ),
    ),
    "a12": (
        "vllm#29596, vllm#21259, vllm#46344, sglang#9606",
        "Kimi K2 reads meaning from ids, and random ones spoil its later calls",
        "written for Kimi, ids are `functions.NAME:COUNTER` in calls and results; rows keep theirs",
        (
            "core/test_formats_kimi.py"
            "::test_random_identifiers_are_rewritten_alike_in_calls_and_results",
            "test_cli.py"
            "::test_an_export_for_mistral_has_its_identifiers_and_nothing_else_that_is_new",
        ),
    ),
    "a15": (
        "vllm#5649, vllm#47734",
        "Mistral's templates refuse ids that are not nine letters and digits",
        "written so, one to one, by the format and by `export --ids mistral9`",
        (
            "core/test_formats_mistral.py"
            "::test_random_identifiers_become_nine_characters_in_calls_and_results_alike",
            "core/test_formats_mistral.py"
            "::test_a_row_for_mistral_has_other_identifiers_and_nothing_else",
            "test_cli.py"
            "::test_an_export_for_mistral_has_its_identifiers_and_nothing_else_that_is_new",
        ),
    ),
    "a16": (
        "openai-agents-python#604, openai-agents-python#2850, pydantic-ai#7909, litellm#40294",
        "a success without choices breaks deep inside and hides what the provider said",
        "one named failure that says what came, asked again; the episode goes on",
        (
            REPLY + "what_is_no_reply_is_named",
            CLIENT + "what_an_endpoint_says_instead_of_a_reply_is_told",
            FAULTS + "what_may_pass_is_asked_for_once_more",
        ),
    ),
    "a17": (
        "litellm#40260, litellm#42140, pydantic-ai#6610, oh-my-pi#8563",
        "a stream that breaks off counts as a finished answer",
        "it is incomplete and asked again, unless this endpoint is trusted not to say why it ended",
        (
            STREAM + "what_is_no_reply_is_named",
            CLIENT + "a_stream_that_just_ends_is_cut_off_unless_the_endpoint_is_trusted",
            REPLY + "an_endpoint_may_be_trusted_not_to_say_why_it_ended",
        ),
    ),
    "a19": (
        "curator#205, curator#256, curator#200",
        "all tries of all requests are spent within the seconds of one rate limit",
        "one pause for everybody at an endpoint, shown while it lasts; at most three tries each",
        (
            PATIENCE + "five_seconds_of_refusals_cost_each_request_few_tries",
            FAULTS + "one_refusal_holds_back_everybody_at_that_endpoint",
            "core/test_llm_open.py::test_what_is_waited_for_is_told_by_endpoint",
        ),
    ),
    "a20": (
        "smolagents#2107, litellm#4387, MemOS#1620, job-ops#555",
        "Retry-After is ignored, or everybody comes back in the same moment",
        "nobody asks before the moment that was named, in seconds or as a date; then one by one",
        (
            PATIENCE + "nobody_asks_before_the_moment_an_endpoint_named_and_then_not_all_at_once",
            PATIENCE + "the_time_to_wait_is_read_as_seconds_and_as_a_date",
            "faults/test_putting_off.py::test_nobody_asks_before_the_endpoint_allows_it",
        ),
    ),
    "a22": (
        "openai-python#763, openai-python#2539",
        "streams that are given up keep their connections until none is left",
        "they give them back; the next call is answered",
        (TRANSPORT + "abandoned_streams_give_their_connections_back",),
    ),
    "a25": (
        "openai-agents-python#3769, promptfoo#5859, hermes-agent#65061, pydantic-ai#6503",
        "what a filter withheld is asked for again until the budget is gone",
        "an outcome of its own, asked once, of no use as a sample even where half a text came",
        (
            REPLY + "what_a_filter_withheld_is_an_outcome_and_of_no_use",
            REPLY + "a_refusal_in_the_words_of_the_api_is_an_outcome",
            FAULTS + "why_a_reply_ended_is_told",
            f"synth/test_players.py::test_{WITHHELD}",
        ),
    ),
    "a26": (
        "langchain#37713, kimi-cli#2141, inspect_ai#4079, hermes-agent#15353",
        "some endpoints refuse a history without its reasoning, others one with it",
        "a setting of each model; the record keeps the reasoning either way",
        (
            CLIENT + "endpoints_of_either_mind_take_the_history",
            CLIENT + "earlier_reasoning_goes_back_as_the_policy_says",
            "synth/test_players.py::test_earlier_reasoning_is_handed_on_and_kept_in_the_record",
        ),
    ),
    "a27": (
        "agent-zero#1773, inspect_ai#2316, inspect_ai#3802, OpenViking#4238",
        "half of a surrogate pair in a text or a file's name breaks whoever writes it down",
        "U+FFFD and a note in replies, an error of the agent in arguments, replaced in results",
        (
            REPLY + "what_no_file_can_keep_is_replaced_and_recorded",
            CLIENT + "halves_of_characters_in_a_request_are_sent_as_something_that_can_be_read",
            PLAY + "arguments_that_do_not_parse_are_an_error_the_agent_can_recover_from",
            "simulators/test_live_environment.py::test_oddities_that_harm_nobody_are_tolerated",
            "simulators/test_live_folder.py::test_a_tree_survives_packing_and_the_disk",
        ),
    ),
    "a29": (
        "instructor#2585, inspect_ai#2580, dspy#8745",
        "a cache without sampler or number of the sample makes one text of many",
        "replies are kept by who asked for them and what was asked, sampler included",
        (
            "core/test_llm_journal.py::test_eight_rollouts_of_one_prompt_stay_eight_texts",
            "core/test_llm_journal.py"
            "::test_a_reply_to_another_request_is_not_used_and_the_reason_is_kept",
        ),
    ),
    "d01": (
        "tau2-bench#182, tau2-bench#297",
        "a user agrees and takes leave in one turn, and the agent never acts on it",
        "the agent has one more turn; the state is judged after it",
        (PLAY + "a_goodbye_that_also_consents_leaves_the_agent_one_last_act",),
    ),
    "d02": (
        "tolokaforge#611, tolokaforge#619",
        "what stands beside the stop token is thrown away",
        "the agent gets the sentence without the token, then the episode ends",
        (
            USER + "a_closing_sentence_is_delivered_and_the_token_is_not",
            USER + "a_user_that_takes_leave_without_the_token_has_left",
            PLAY + "a_goodbye_after_a_courtesy_is_the_end",
        ),
    ),
    "d04": (
        "langwatch#7665",
        "a simulated user talks of its instructions, or plays the agent too",
        "such a message is asked for again and never delivered; in the end it is the user's fault",
        (USER + "what_no_user_says_is_asked_for_again_and_then_the_users_fault",),
    ),
    "d06": (
        "tau2-bench#392",
        "failures of the simulated user are counted as the agent's",
        "an episode that the user spoiled says so and is no verdict on the agent",
        (
            "synth/test_judge_users.py",
            USER + "what_no_user_says_is_asked_for_again_and_then_the_users_fault",
            PLAY + "whoever_breaks_an_episode_is_named_and_nobody_is_judged",
            "synth/test_judge_verdict.py"
            "::test_an_agent_that_never_learns_who_it_talks_to_has_not_failed",
            "synth/test_progress.py::test_all_owners_of_failures_are_named",
        ),
    ),
    "d08": (
        "tolokaforge#1078, Kiln#1784",
        "users make up the numbers that they were not given",
        "an identifier that is in no fact is refused; asked for an unknown one, users have none",
        (
            USER + "what_no_user_says_is_asked_for_again_and_then_the_users_fault",
            "core/test_invented.py",
            "simulators/test_users_scripted.py::test_an_unknown_number_is_never_made_up",
            "simulators/test_users_alone.py::"
            "test_a_scripted_user_never_utters_an_identifier_that_is_not_in_its_facts",
            "synth/test_generation.py::test_users_never_say_an_identifier_they_were_not_given",
        ),
    ),
    "f-status": (
        "",
        "statuses that pass are given up, and those that do not are repeated",
        "408, 409 and 5xx are asked again, 429, 503 and 529 waited for, other 4xx final and told",
        (
            FAULTS + "what_may_pass_is_asked_for_once_more",
            FAULTS + "a_refused_request_is_not_asked_again_and_says_why",
            FAULTS + "a_busy_endpoint_is_asked_again_when_it_allows_it",
            FAULTS + "an_endpoint_that_asks_for_more_time_than_a_call_has_fails_it_at_once",
        ),
    ),
    "f-transport": (
        "",
        "connections are refused, reset, slow or endless, and a timeout counts each read anew",
        "asked again within the call's time, which bounds all of it; an endless body by its size",
        (
            FAULTS + "what_may_pass_is_asked_for_once_more",
            FAULTS + "a_restarting_endpoint_is_waited_for_once_it_has_answered",
            CLIENT + "the_deadline_bounds_the_whole_call",
            TRANSPORT + "an_endless_reply_is_given_up_by_its_size",
            TRANSPORT + "nobody_at_the_address_is_said_at_once_in_one_line",
        ),
    ),
    "f-body": (
        "",
        "errors, pages, cut JSON or nothing at all come as a success",
        "each is named and asked again; what it cost is in the books",
        (
            FAULTS + "what_may_pass_is_asked_for_once_more",
            REPLY + "what_is_no_reply_is_named",
            REPLY + "a_reply_of_no_use_still_tells_what_it_cost",
        ),
    ),
    "f-calls": (
        "",
        "ids and arguments are empty, doubled, cut, no text, or of a tool that nobody offered",
        "mended and noted where there is one meaning; else as said, and the tool tells the agent",
        (
            FAULTS + "a_repair_is_recorded",
            FAULTS + "an_object_of_arguments_is_written_as_text",
            FAULTS + "what_was_said_comes_as_it_was_said",
            PLAY + "arguments_that_do_not_parse_are_an_error_the_agent_can_recover_from",
            PLAY + "a_tool_outside_the_agents_set_does_not_exist_for_it",
        ),
    ),
    "f-finish": (
        "",
        "a reply that was cut off or filtered is acted on like any other",
        "the reason is told; a call that the limit cut off is not carried out",
        (
            FAULTS + "why_a_reply_ended_is_told",
            FAULTS + "what_was_said_comes_as_it_was_said",
            PLAY + "a_reply_that_the_token_limit_cut_off_ends_the_episode_and_is_not_acted_on",
        ),
    ),
    "f-text": (
        "",
        "byte order marks, NUL, halves of characters and invisible ones",
        "what no file can keep is replaced and noted, the rest is left",
        (
            FAULTS + "a_repair_is_recorded",
            FAULTS + "what_was_said_comes_as_it_was_said",
            REPLY + "what_no_file_can_keep_is_replaced_and_recorded",
        ),
    ),
    "f-stream": (
        "",
        "servers write events in their own ways, leave out the end, or mix two replies",
        "all ways are read alike; a stream without its end or of two replies is asked again",
        (
            STREAM + "every_way_to_write_events_is_read_alike",
            FAULTS + "what_was_said_comes_as_it_was_said",
            FAULTS + "what_may_pass_is_asked_for_once_more",
        ),
    ),
    "f-all": (
        "",
        "a fault that was thought of is tried by nobody",
        "every fault of `toolloom mock-llm` is met by the client, and the books are compared",
        (
            FAULTS + "every_fault_of_the_mock_has_its_place_here",
            FAULTS + "the_books_equal_the_endpoints_ledger",
            "core/test_mock_llm_faults.py::test_every_fault_is_in_a_test_here_and_says_what_it_is",
        ),
    ),
}
