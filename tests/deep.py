"""What `make test` leaves to `make test-all`: of a test named here it runs as many cases as stand beside it, and why.

The cases that stay are spread evenly over all of them, or those that are named, by their places or ids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

Kept = int | tuple[int, ...] | tuple[str, ...]
OF_CHANNELS = ("v1", "v2", "v3", "v3:TENSOR_CORES=0:MOST_ROWS=16")
KEPT_BY_REASON: Mapping[str, Mapping[str, Kept]] = {
    "Kernels at further workloads, and further params: the cases that stay have each kernel, or its kind, once": {
        "test_nvfp4_products.py::test_fp32_passes_by_far": (0, 4, 6, 12, 18),
        "test_nvfp4_products.py::test_the_oracle_is_the_sum": (0, 4, 6, 12, 18),
        "test_nvfp4_products.py::test_the_reference_is_right_on_a_cpu": 2,
        "test_launch_interpret.py::test_value_heads_read_the_query_head_they_share": 1,
        "test_decode_ucache.py::test_kernels_are_right_where_there_is_no_gpu": 1,
        "test_decode_pool.py::test_kernels_are_right_where_there_is_no_gpu": 1,
        "test_fp8_gemm_pos.py::test_kernels_are_right_where_there_is_no_gpu": 2,
        "test_interpreted_libraries.py::test_kernels_with_cudas_libraries_are_checked_without_a_gpu": 0,
        "test_kernels_prefill_cuda.py::test_params": 1,
        "test_kernels_prefill_cuda.py::test_blocks_go_on_to_sequences_with_chunks_of_the_last_one_under_way": (
            *("lengths2-heads2-prefill-v7:SMS=2", "lengths2-heads2-prefill-v8:SMS=2:SCHEDULED=4"),
        ),
        "test_kernels_prefill_libraries.py::test_fla_is_kept_from_handing_the_call_over_to_flash_qla": 0,
        "test_kernels_prefill_triton.py::test_every_arithmetic_passes_all_gates": 1,
        "test_kernels_prefill_cuda.py::test_what_is_no_number_stays_in_its_sequence": 1,
        "test_launch_interpret.py::test_every_block_size_passes_all_gates_on_all_inputs": 0,
        "test_kda_decode.py::test_kernels_are_right_where_there_is_no_gpu": (
            *("softplus-kda-decode-v1", "bounded-kda-decode-v2", "bounded-kda-decode-triton"),
            *(f"bounded state=bf16 --quick-kda-decode-{each}" for each in OF_CHANNELS),
        ),
        "test_kda_layer.py::test_kernels_are_right_where_there_is_no_gpu": (0,),
        "test_kda_prefill.py::test_kernels_are_right_where_there_is_no_gpu": (0, 2, 9),
        "test_kda_prefill.py::test_states_on_both_sides_of_what_is_forgotten_and_of_what_one_factor_holds": (3, 4),
        "test_cute.py::test_products_of_sm_100_are_interpreted_and_watched": ("pair", "native-one"),
        "test_cute.py::test_what_goes_out_and_comes_back_compiles_to_the_same_code": ("prefill-cute",),
        "test_kda_verify.py::test_kernels_are_right_where_there_is_no_gpu": (
            *("T=1 keep=last gate=bounded-kda-verify-triton", "T=3 keep=each gate=softplus-kda-verify-v2"),
            *(f"T=3 keep=none --quick-kda-verify-{each}" for each in OF_CHANNELS),
        ),
        "test_layer_ops.py::test_kernels_are_right_where_there_is_no_gpu": (0, 16),
        "test_nvfp4_products.py::test_kernels_are_right_where_there_is_no_gpu": (0, 4, 9, 12),
        "test_ptx_warpgroups.py::test_a_product_is_that_of_its_operands": 12,
        "test_prefill_checkpoints.py::test_v1_is_right_in_the_interpreter": (0,),
        "test_rungs.py::test_rungs_are_right_where_there_is_no_gpu": 1,
        "test_rungs.py::test_a_hint_is_all_that_changes": 0,
        "test_rungs.py::test_the_machine_code_is_the_same": 1,
        "test_slot_ops.py::test_a_library_is_called_so_that_it_computes_the_op": 12,
        "test_slot_ops.py::test_kernels_are_right_where_there_is_no_gpu": (0, 9),
        "test_verify_drafts.py::test_kernels_are_right_where_there_is_no_gpu": (0, 13),
        "test_verify_sequences.py::test_honest_kernels_pass_by_far": (
            "decode-pool-reference verify-reference pool-copy-torch",
            "verify-rollback-reference decode-split-reference",
            "test-honest-tree decode-ucache-reference pool-copy-torch",
        ),
        "test_verify_sequences.py::test_honest_kernels_pass_in_a_profile": 1,
        "test_verify_sequences.py::test_kernels_in_the_interpreters_pass": (0,),
        "test_verify_tree.py::test_kernels_are_right_where_there_is_no_gpu": 1,
        "test_verify_tensor_cores.py::test_verify_v3_is_right_where_there_is_no_gpu": 1,
    },
    "Inputs of the prefill and decays of which other cases have a part: lengths, heads, kinds of gates": {
        "test_decays.py::test_every_op_draws_each_of_its_profiles_and_changes_nothing_but_the_gate": 0,
        "test_kernels_prefill_cuda.py::test_a_head_that_never_forgets_goes_back_further_than_warps_look_at_once": 0,
        "test_kernels_prefill_cuda.py::test_chunks_of_all_kinds_of_inputs": 1,
        "test_kernels_prefill_cuda.py::test_chunks_of_sequences_of_different_lengths_and_an_empty_one_with_shared_heads": 0,
        "test_kernels_prefill_cuda.py::test_more_chunks_than_places_for_them": 0,
        "test_kernels_prefill_cuda.py::test_more_sequences_than_lanes_look_at_at_once": 0,
        "test_kernels_prefill_cuda.py::test_teams_of_blocks_share_sequences_longest_first": 0,
        "test_kernels_prefill_cuda.py::test_composing_goes_back_no_further_than_a_segment_that_forgets": 0,
        "test_kernels_prefill_cuda.py::test_segments_begin_as_far_back_as_the_head_remembers": 0,
        "test_kernels_prefill_cuda.py::test_a_state_that_takes_many_chunks_to_forget_is_worked_out_before": 0,
        "test_kernels_prefill_cuda.py::test_states_are_composed_from_what_segments_make_of_any": 0,
        "test_kernels_prefill_cuda.py::test_transitions_of_more_chunks_than_places_of_several_sequences_and_shared_heads": 0,
        "test_kernels_prefill_cuda.py::test_value_heads_that_cannot_be_prepared_in_pairs": 0,
        "test_prefill_numerics.py::test_decays_a_little_too_large_pass": 1,
    },
    "Further mistakes planted in kernels, of kinds that the cases which stay have, too": {
        "test_adversarial_cpu.py::test_those_in_cuda_compile_and_are_right_at_first": 0,
        "test_faults_broken.py::test_a_source_that_does_not_compile_has_the_compilers_message_with_file_and_line": 1,
        "test_interpreted_programs.py::test_programs_that_use_the_same_elements": 4,
        "test_cli_verify.py::test_what_is_wrong_in_a_cuda_kernel_is_named_by_its_line": 2,
        "test_exchange_import.py::test_a_solution_that_does_not_do_it_gets_the_status_that_says_so": 3,
        "test_faults_named.py::test_numerics_that_give_no_pair_are_named": 1,
        "test_fp8_gemm_pos.py::test_a_broken_kernel_is_refused": 1,
        "test_fp8_gemm_pos.py::test_a_warpgroup_that_does_not_wait_for_its_turn_is_refused": 0,
        "test_kda_layer.py::test_a_layer_that_updates_inputs_before_all_have_read_them_is_found": 0,
        "test_verify_sequences.py::test_a_fault_is_found_and_shrunk": (
            *("wrong parent", "stale ring after a flush", "checkpoint off by a chunk", "wild accepted count"),
            *("another request's count", "state saved ahead in the pool", "restore into a live slot", "bits by place"),
            *("checkpoint rounded to bf16", "padded rows write slot 0", "narrow offsets", "weights are written"),
        ),
        "test_nvfp4_products.py::test_a_spoiled_kernel_is_refused": tuple(range(14)),
        "test_score.py::test_a_failure_is_told_so_that_it_can_be_mended_and_has_no_time": 2,
    },
    "Compilers: further kernels and architectures; the first of each kind stays": {
        "test_cli_calibrate.py::test_every_addition_is_in_the_code": 1,
        "test_cli_inspect.py::test_every_bundled_kernel_for_three_architectures": 0,
        "test_codegen_build.py::test_every_kernel_and_preset_compiles_and_none_spills_but_by_design": (
            *("decode-rowreg-sm_90", "layer-chain-sm_90", "nvfp4-gemv-v3-sm_100"),
        ),
        "test_codegen_build.py::test_products_in_nvfp4_are_tensor_cores_of_four_bits_or_of_fp16": 2,
        "test_refused_launches.py::test_a_verb_refuses_it_and_says_why": (0, 1),
        "test_codegen_build.py::test_shared_memory_is_what_the_kernel_declares": 1,
        "test_diagnose_experiment.py::test_what_rules_propose_from_the_code_runs": 2,
        "test_diagnose_rules.py::test_loads_that_all_go_out_first_are_no_cause": 1,
        "test_diagnose_rules.py::test_without_times_either_one_trip_after_the_other_bounds_the_time": 1,
        "test_doctor_loading.py::test_loads_for_real": 0,
        "test_profile_phases_header.py::test_a_stamped_kernel_reads_its_clock_at_each_mark_and_spills_hardly_anything": (
            "decode-v4-sm_90-1",
        ),
        "test_profile_phases_header.py::test_a_mark_reads_the_clock_once_even_where_warps_add_up_beside_products": (
            "prefill-v7",
        ),
        "test_profile_phases_header.py::test_marks_compile_to_nothing": ("decode-v4-sm_90",),
        "test_profile_phases_header.py::test_of_several_launches_those_with_marks_are_stamped": 1,
        "test_scaffold_make.py::test_a_copy_differs_from_the_original_in_strings_and_its_functions_name_alone": 6,
        "test_scaffold_make.py::test_a_copy_of_every_kernel_and_preset_loads_with_its_params": 8,
    },
    "Generators of damaged files and wrong words at full length": {
        "test_bad_inputs.py::test_any_text_is_understood_or_refused_by_run": 1,
        "test_bad_inputs.py::test_what_an_option_cannot_use_is_refused_in_words": 1,
        "test_cli_explain_code.py::test_a_profile_that_cannot_be_used_is_left_out_with_a_warning_and_the_one_before_speaks": 3,
        "test_codegen_cache.py::test_a_damaged_record_is_built_again": 2,
        "test_damaged_runs.py::test_a_file_that_is_not_what_it_should_be_is_told_or_not_needed": 9,
        "test_damaged_runs.py::test_a_wrong_value_is_told_or_harmless": 1,
        "test_damaged_runs.py::test_what_this_user_may_not_read_stops_nothing_else": 2,
        "test_faults_stopped.py::test_a_disk_that_is_full_from_the_start_leaves_no_folder_that_no_verb_sees": 1,
        "test_exchange_import.py::test_a_solution_is_imported_whatever_the_length_of_its_name": 2,
        "test_exchange_import.py::test_whatever_a_thing_is_called_it_stays_in_the_folder": 4,
        "test_ledger.py::test_a_damaged_line_is_told_with_its_number": 5,
        "test_ledger.py::test_a_disk_that_fills_leaves_the_ledger_as_it_was": 1,
        "test_remote_archive.py::test_a_hostile_stream_is_refused_by_what_it_holds_and_not_by_what_it_says": 10,
        "test_report_html.py::test_a_damaged_run_is_named_and_the_last_report_stays": 2,
    },
    "Declarations that are broken, through further fields and verbs": {
        "test_catalog_catalog.py::test_a_broken_kernel_is_listed_with_its_reason_and_stops_nothing": 9,
        "test_catalog_fields.py::test_a_kernels_field_of_another_type_is_broken_and_named": 12,
        "test_catalog_fields.py::test_an_ops_field_of_another_type_is_broken": 40,
        "test_cli_verify.py::test_kernels_with_files_that_cannot_be_read_stop_no_other": 1,
        "test_codegen_ahead.py::test_a_source_that_hangs_when_imported_costs_one_limit_and_the_rest_is_built": 0,
        "test_scaffold_make.py::test_a_copy_of_a_gpu_kernel_compiles_elsewhere": 1,
        "test_scaffold_make.py::test_a_copy_that_would_not_load_is_not_made": 2,
    },
    "Stops and cuts, as test_faults_stopped.py or the case that stays has them": {
        "test_step_worker.py::test_a_chain_that_fails_ends_the_worker_only_with_the_gpu": 1,
        "test_step_worker.py::test_every_quantity_is_of_a_layer_in_every_round": 1,
        "test_faults_stopped.py::test_a_killed_run_leaves_a_hidden_folder_that_resume_finishes": 0,
        "test_faults_stopped.py::test_a_killed_measuring_worker_costs_its_case_and_no_other": 0,
        "test_faults_stopped.py::test_the_worker_of_a_killed_run_ends_even_if_its_kernel_hangs": 0,
        "test_faults_stopped.py::test_ctrl_c_before_anything_is_measured_and_resume_refuses_a_kernel_that_has_changed": 0,
        "test_faults_stopped.py::test_two_runs_at_once_wait_for_each_other_and_keep_to_their_folders": 0,
        "test_faults_stopped.py::test_a_full_disk_ends_a_run_in_words_and_resume_finishes_it": 0,
        "test_faults_stopped.py::test_what_is_terminated_leaves_no_temporary_file": ("run", "export"),
        "test_mcp_process.py::test_a_server_that_ends_leaves_no_command_behind": 0,
        "test_process_warm.py::test_how_it_ends_is_told_and_costs_the_next_nothing": 2,
        "test_process_warm.py::test_many_in_a_row_leave_the_parent_as_it_was": 0,
        "test_process_warm.py::test_where_there_can_be_no_socket_a_worker_is_a_process_of_its_own": 1,
        "test_process_worker.py::test_what_the_channel_did_not_send_is_told": 3,
        "test_remote_worker.py::test_a_worker_that_nobody_listens_to_stops_its_command_and_keeps_what_is_finished": 1,
    },
    "Other machines: what another engine shows, too": {
        "test_compare_revisions.py::test_both_revisions_are_measured_on_a_target_that_has_neither": 0,
        "test_remote_local.py::test_the_kernels_of_a_project_are_meant_there_as_here": 1,
        "test_mcp_process.py::test_a_call_goes_to_a_target_and_its_progress_comes_back": 0,
        "test_remote_ssh.py::test_a_cut_connection_is_told_the_worker_there_stops_and_resume_has_it_all": 0,
        "test_remote_ssh.py::test_a_full_disk_here_leaves_the_run_there_and_resume_brings_it_home": 0,
        "test_remote_ssh.py::test_a_full_disk_there_is_told_and_leaves_no_part_of_a_tree": 0,
        "test_remote_ssh.py::test_ctrl_c_ends_the_job_there_brings_home_what_is_finished_and_resume_goes_on": 0,
        "test_remote_worker.py::test_the_output_has_the_width_and_the_names_of_who_asked": 0,
    },
    "Measured as users measure, where made-up workers or a stored run show the same": {
        "test_compare_revisions.py::test_the_working_tree_with_what_is_not_committed": 0,
        "test_watch.py::test_a_declaration_that_does_not_load_is_a_turn_like_any_other": 0,
        "test_watch.py::test_people_have_a_line_a_turn": 0,
        "test_cli_explain_launches.py::test_a_run_with_cupti_tells_the_shares": 0,
        "test_compare_revisions.py::test_what_cannot_be_compared": 4,
        "test_cli_verify.py::test_quick_tries_one_kind_of_inputs_at_one_workload_and_says_so": 2,
        "test_cli_new.py::test_a_new_kernel_lists_and_verifies_at_once": 1,
        "test_cli_new.py::test_from_a_wheel_it_makes_an_empty_folder_a_project_that_lists_and_runs": 0,
        "test_cli_verify.py::test_a_workload_that_a_kernel_is_not_for_is_neither_built_nor_interpreted": 0,
        "test_exchange_export.py::test_a_definition_of_others_says_names_and_order": 0,
        "test_exchange_export.py::test_indices_are_stored": 0,
        "test_score.py::test_what_it_is_compared_with_may_be_slower": 0,
        "test_score.py::test_what_takes_less_time_than_its_work_has_no_score_on_either_side": 1,
        "test_score.py::test_workers_are_forked_from_one_process_that_stays": 0,
        "test_toy_ops.py::test_a_run_measures_and_stores_them": 1,
        "test_toy_ops.py::test_their_numbers_are_verified_at_their_own_workloads": 0,
    },
    "Repeats of simulations and recorded runs: fewer repeats find what is far off": {
        "test_compare_unchanged_runs.py::test_unchanged_kernels_are_covered_and_not_called_different": 0,
        "test_measure_looks.py::test_a_difference_within_the_margin_is_rarely_claimed": 1,
        "test_measure_race.py::test_the_best_is_hardly_ever_dropped_whatever_a_process_adds_to_it": 1,
        "test_stats_cards.py::test_the_interval_over_cards_holds_the_true_ratio_and_a_baseline_differs_from_itself_by_its_noise": 1,
        "test_stats_cards.py::test_two_cards_and_one_kernel_beside_the_baseline_are_enough": 1,
        "test_stats_processes.py::test_equal_kernels_are_as_far_apart_as_their_intervals_say": 1,
        "test_stats_processes.py::test_the_interval_holds_the_truth_as_often_as_it_says": 1,
        "test_stats_simulation.py::test_a_family_makes_no_more_false_claims_than_one": 1,
        "test_stats_unpaired.py::test_a_case_that_nobody_changed_is_covered": 1,
    },
    "Output at further widths and of further files": {
        "test_golden.py::test_it_prints_what_it_always_printed": 75,
        "test_cli_contest.py::test_an_element_that_our_gates_refused_may_decide_it": 4,
        "test_cli_inspect.py::test_beside_a_revision": 0,
        "test_cli_inspect_schedule.py::test_a_kernel_that_does_not_build_is_told_and_exit_code_6": 0,
        "test_cli_ncu_for_model.py::test_the_largest_comes_first_of_every_kind_that_is_ranked": 4,
        "test_cli_outcome.py::test_any_terminal_shows_every_character_in_as_many_columns": (
            "words0-ascii",
            "words2-latin-1",
        ),
        "test_cli_outcome.py::test_streams_that_are_closed_stop_nothing": 2,
        "test_mcp.py::test_a_long_list_is_read_in_pages_each_of_which_is_small": 0,
        "test_mcp.py::test_the_page_shows_what_is_answered": 1,
        "test_mcp.py::test_what_a_value_cannot_mean_comes_back_as_the_command_says_it": 0,
        "test_report_html_browser.py::test_the_page_never_scrolls_sideways": 1,
        "test_shadowing.py::test_a_verb_and_its_workers_import_none": 1,
        "test_shadowing.py::test_nor_does_python_dash_m": 0,
    },
}
KEPT = {name: kept for names in KEPT_BY_REASON.values() for name, kept in names.items()}


def deep_places(ids: Sequence[str], kept: Kept) -> set[int]:
    """Which of a test's cases, by their place in order, are left to `make test-all`.

    Args:
        ids: of the cases.
        kept: how many stay, or the places or ids of those that do.
    """
    number = len(ids)
    if isinstance(kept, int):
        stay = {place * number // kept for place in range(kept)}
    else:
        stay = {ids.index(each) if isinstance(each, str) else each for each in kept}
    return set(range(number)) - stay


def cases_to_run(request: pytest.FixtureRequest, test: str) -> list[dict[str, Any]]:
    """The params of those cases of a test in a fixture's module that are run now: no other need be computed."""
    items = (item for item in request.session.items if isinstance(item, pytest.Function) and item.path == request.path)
    return [item.callspec.params for item in items if item.originalname == test]
