"""Rows of `hazards.py`: b crawling MCP servers, c schemas that strangers wrote."""

HOSTILE = "core/test_mcp_hostile.py::test_"
REMOTE = "core/test_mcp_remote.py::test_"
ALL = "faults/test_hostile_servers.py::test_"
BROWSE = "tool_registry/test_browse.py::test_"
CRAWL = "tool_registry/test_crawl.py::test_"
NORMALIZE = "tool_registry/test_normalize.py::test_"
DIALECTS = "tool_registry/test_provider_dialects.py::test_"
NAMES = "tool_registry/test_tool_names.py::test_"

HAZARDS = {
    "b01": (
        "python-sdk#360, python-sdk#555",
        "a server ignores its end, or its children live on",
        "it is killed with all it started, also children in sessions of their own",
        (
            HOSTILE + "children_of_a_server_end_with_it_even_in_their_own_session",
            ALL + "no_process_of_theirs_is_left",
            REMOTE + "sessions_leave_no_task_and_no_connection",
        ),
    ),
    "b02": (
        "python-sdk#401, python-sdk#289, python-sdk#1452, mcp-atlassian#939",
        "a missing program or a server that is silent is waited for without end",
        "each is a row with one word and a reason within its limit, over stdio and HTTP",
        (
            HOSTILE + "a_server_that_cannot_be_listed_fails_in_time_with_one_word",
            HOSTILE + "a_missing_program_is_named",
            REMOTE + "a_server_that_cannot_be_listed_fails_in_time_with_one_word",
            REMOTE + "nobody_at_an_address_and_a_name_without_host_are_told_apart",
            ALL + "more_than_forty_servers_end_in_a_named_state_with_a_reason",
        ),
    ),
    "b04": (
        "vercel/ai#19240, copilot-cli#4006, mcp2cli#64, litellm#32244",
        "only the first page of a list is read",
        "all pages are",
        (HOSTILE + "all_pages_are_read",),
    ),
    "b05": (
        "codebase-memory-mcp#1247",
        "a cursor that comes back makes a list without end",
        "the list ends with a flag: by the cursor, the pages, the tools or the bytes",
        (
            HOSTILE + "a_list_without_end_is_cut_and_flagged",
            REMOTE + "a_list_without_end_is_cut_and_flagged",
        ),
    ),
    "b07": (
        "opensquilla#953, trueforge#769, crosslink#319, eneo#671",
        "a limit of 64 KiB breaks legal lists, and none lets a server take all memory",
        "300 KB in a line are read; what has no end is given up, with less than 64 MB of growth",
        (
            HOSTILE + "a_legal_line_of_300_kilobytes_is_read",
            HOSTILE + "a_server_that_cannot_be_listed_fails_in_time_with_one_word",
            REMOTE + "a_server_that_cannot_be_listed_fails_in_time_with_one_word",
            ALL + "each_is_bounded_in_time_and_all_of_them_in_memory",
        ),
    ),
    "b09": (
        "semantic-kernel#13690, agentshield#12, agent-inject#76",
        "instructions to models hide in descriptions, in comments and invisible characters",
        "what nobody can see is taken out, the rest is flagged; the raw text is kept",
        (
            NORMALIZE + "words_meant_for_a_model_are_flagged_wherever_they_stand",
            NORMALIZE + "what_people_cannot_see_no_model_reads",
            "tool_registry/test_url.py::test_instructions_for_models_are_kept_and_flagged",
            BROWSE + "real_descriptions_are_hardly_ever_flagged_for_review",
        ),
    ),
    "b10": (
        "awesome-mcp-security#289, vulnerablemcp#3",
        "a definition changes after it was approved",
        "it is a new version with its difference; rows keep the version that they used",
        (
            "tool_registry/test_url.py"
            "::test_a_changed_list_is_a_new_version_and_its_difference_is_shown",
            "core/test_store_lineage.py"
            "::test_a_description_that_changed_in_an_unchanged_package_stands_out",
            "core/test_store_lineage.py::test_which_rows_and_which_model_used_version_2_of_a_tool",
        ),
    ),
    "b12": (
        "modelcontextprotocol/servers#1845, DesktopCommanderMCP#420",
        "a link or a path that is not there yet leads out of the folder",
        "no path and no link of our own folders leads out",
        (
            "simulators/test_sandbox.py::test_a_path_leads_where_it_would_on_a_disk_and_never_out",
            "simulators/test_live_folder.py::test_a_link_that_leaves_through_another_link_is_refused",
        ),
    ),
    "b14": (
        "modelcontextprotocol/servers#3635, agentshield#15, agentshield#48, hevy-mcp#636",
        "installing runs code of the package, or a command line hides some",
        "no script of a package runs; versions are exact; npx -c is refused; copies are marked",
        (
            "tool_registry/test_install_scripts.py"
            "::test_scripts_of_a_package_do_not_run_while_it_is_installed",
            CRAWL + "a_broken_file_is_named_with_the_place_in_it",
            CRAWL + "npx_and_uvx_become_pinned_packages",
            BROWSE + "the_same_tools_under_another_scope_are_marked",
        ),
    ),
    "b16": (
        "hevy-mcp#636, modelcontextprotocol/servers#3635",
        "servers read the environment and the files of the user",
        "neither is there for them; what they were sent is cut out of what they say",
        (
            CRAWL + "no_secret_reaches_a_server_or_a_file",
            HOSTILE + "nothing_of_our_environment_or_home_reaches_a_server",
            REMOTE + "nothing_of_our_environment_goes_with_a_request",
            "tool_registry/test_url.py::test_what_a_server_was_sent_is_in_no_file_and_no_message",
            ALL + "no_credential_is_in_the_registry_the_ledger_or_the_report",
        ),
    ),
    "b-net": (
        "MCP Security Best Practices: SSRF",
        "an address, a name or a redirect of a stranger leads into the own network",
        "each connection is judged by the numeric address that it is made to",
        (
            REMOTE + "a_public_name_with_a_private_address_is_refused",
            "core/test_mcp_address.py::test_addresses_of_no_public_host_are_not",
            "core/test_mcp_address.py::test_a_redirect_that_weakens_or_leaves_is_refused",
        ),
    ),
    "b-repo": (
        "MCP Security Best Practices: Local MCP Server Compromise",
        "a launch line in a README, or a link in a repository, runs or reads what nobody meant",
        "files are read within bounds, names must be those of packages, and nothing is run",
        (
            "tool_registry/test_launches.py"
            "::test_a_launch_line_that_would_fetch_from_elsewhere_or_give_options_names_no_server",
            "tool_registry/test_launches.py"
            "::test_a_strangers_file_neither_runs_local_commands_nor_reaches_private_networks",
            "tool_registry/test_launches.py::test_a_giant_readme_takes_seconds_whatever_is_in_it",
            "tool_registry/test_tree.py"
            "::test_a_folder_of_repositories_is_read_and_its_links_are_not_followed",
            "tool_registry/test_github.py::test_a_token_is_sent_to_the_api_alone_and_kept_nowhere",
        ),
    ),
    "c01": (
        "mcp-digitalocean#265, apify-mcp-server#36, ruflo#1294, mcp-openapi-proxy#16",
        "an array that does not say what it holds makes a provider refuse the whole request",
        "it holds anything, for the providers that ask; the change is told, the original kept",
        (DIALECTS + "an_array_that_does_not_say_what_it_holds_holds_anything",),
    ),
    "c02": (
        "bnbchain-mcp#68",
        "an object without properties is refused",
        "it has none, for the providers that ask; twice is once",
        (
            DIALECTS + "an_object_without_properties_has_none_and_twice_is_once",
            DIALECTS + "an_object_inside_of_another_has_properties_too",
        ),
    ),
    "c04": (
        "opencode#32488, fantasy#138",
        "keywords and lists of types that a provider does not know are refused",
        "they are left out or rewritten for it; arguments are judged by the original",
        (
            DIALECTS
            + "keywords_that_a_provider_refuses_are_gone_for_it_and_still_hold_for_arguments",
        ),
    ),
    "c05": (
        "JSON-Schema-Test-Suite#107, networknt#180, Stranger6667/jsonschema#898",
        "a reference to itself overflows the stack",
        "circles are refused, trees that hold themselves are fine",
        (
            NORMALIZE + "what_cannot_be_used_is_refused_with_one_word",
            NORMALIZE + "a_recursive_tree_is_legal",
        ),
    ),
    "c07": (
        "apify-mcp-server#36",
        "names of tools clash with what clients make of them",
        "each name becomes one valid name, leads back, and is nobody else's",
        (
            NAMES + "every_name_becomes_a_valid_function_name",
            NAMES + "a_function_name_leads_back_unless_only_a_hash_is_left",
            NAMES + "different_tools_never_share_a_function_name",
        ),
    ),
}
