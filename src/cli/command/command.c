/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/command/command.h"

#include <string.h>

const orr_command orr_commands[] = {
    {"analyze", "where did the time of a recorded job go", "TRACE...",
     "Reads the recordings of all ranks of a job and prints what they say: breakdown of time, "
     "kernels, idle time by cause, communication and how much of it is exposed, and the "
     "critical path.\n"
     "A TRACE is a file, a directory or a glob; the files of a rank are found by themselves, and "
     "a host trace (PyTorch execution trace) is linked to the device trace (Kineto) of its rank. "
     "\"-\" is standard input.",
     "orrery analyze traces/\n"
     "orrery analyze --html report.html rank*.json.gz\n"
     "orrery analyze --only critical_path,idle_time_breakdown --format json traces/\n"
     "orrery analyze --fail-if 'temporal_breakdown.idle_frac>0.3' traces/",
     " only step rank fail-if ", 0, SIZE_MAX, orr_command_analyze},
    {"convert", "write a recording in another format", "TRACE... -o OUTPUT",
     "Writes Chakra execution traces (.et), Perfetto (.pftrace) or Chrome JSON (.json), Chakra as "
     "JSON (--to json) or text (.textproto), or a picture of nodes and dependencies for Graphviz "
     "(.dot) or GraphML tools (.graphml), by the "
     "ending of OUTPUT or by --to; .gz or .zst compresses. Host and device traces of a rank are "
     "linked first, and the match rate is printed.\n"
     "With several ranks OUTPUT is a directory, or a pattern in which %r stands for the rank; "
     "Perfetto and Chrome files can hold all ranks in one.\n"
     "A part of the job is written with --step, --subtree or --ranks; see orrery chakra --help.",
     "orrery convert traces/ -o et/ --to chakra\n"
     "orrery convert rank0.json.gz -o rank0.et\n"
     "orrery convert traces/ -o all.pftrace",
     " to ", 1, SIZE_MAX, orr_command_convert},
    {"diagnose", "what a recorded job loses time to, and what mending it would bring", "TRACE...",
     "Ranks the causes of lost time: communication that nothing hides, a host that cannot launch fast enough, waits "
     "for the device, slow ranks and stages, copies, the data loader, allocations, kernels far below the roofline, a first step "
     "that warms up. Each comes with where it was seen, what the recording would take without it (simulated), "
     "how uncertain that is, and the command that gives the same answer.\n"
     "Causes that would bring less than 1 % of the recorded time are left out. Gains do not add up, for one cause hides "
     "another: what all would bring together is simulated too.",
     "orrery diagnose traces/\n"
     "orrery diagnose --html diagnosis.html traces/\n"
     "orrery diagnose --format json traces/",
     " device ", 1, SIZE_MAX, orr_command_diagnose},
    {"chakra", "small tools around Chakra execution traces", "TOOL [FILE...]",
     "TOOL is one of:\n"
     "generate [PATTERN...]: files of one pattern each for --ranks ranks, as Chakra's generator "
     "makes them; without a name all of all_reduce, all_gather, all_to_all, reduce_scatter, "
     "broadcast, barrier, send, recv, compute, compute_pair, compute_chain, memory_load, "
     "memory_store, metadata.\n"
     "json, text: a file as protobuf's JSON (what Chakra's jsonizer writes) or text format.\n"
     "dot, graphml: a picture of nodes and dependencies.\n"
     "diff BEFORE AFTER: as `orrery diff`.\n"
     "reduce: a part of a recording, by --step, --subtree or --ranks, as Chakra files. Its order is that of the "
     "whole: what waited for a node that is left out waits for the nearest kept ones before it.\n"
     "json, text, dot and graphml are `orrery convert --to` of that name, to standard output "
     "unless --output says otherwise, and read every recording.",
     "orrery chakra generate all_reduce --ranks 8 -o job\n"
     "orrery chakra json job/ALL_REDUCE.0.et\n"
     "orrery chakra dot rank0.et -o rank0.dot\n"
     "orrery chakra reduce traces/ --step 3 --ranks every:8 -o part/",
     " ranks ", 1, SIZE_MAX, orr_command_chakra},
    {"diff", "compare two recorded jobs", "BEFORE AFTER",
     "Compares two jobs operator by operator and kernel by kernel: what was added, what is gone, "
     "what takes longer. Jobs of different numbers of ranks or steps are compared per rank "
     "and step with --normalize.",
     "orrery diff monday/ tuesday/\n"
     "orrery diff --format csv --all monday/ tuesday/",
     " normalize ", 2, 2, orr_command_diff},
    {"synthesize", "generate jobs like recorded ones, which are nobody's", "TRACE... -o DIR",
     "Learns from recorded jobs (each TRACE a file, a folder of ranks or an archive) and writes a "
     "job like them, a Chakra execution trace for each rank: blocks of their steps put together "
     "where operators agree, durations drawn anew within their class, communications that meet on "
     "all ranks. A seed gives the same job each time.\n"
     "Prints how far the job is from each source: step time and exposed communication, as "
     "simulated; distributions and autocorrelation of durations.\n"
     "--obfuscate hides names, exact durations and sizes, and which of the jobs given it follows; "
     "docs/synthesis.md says precisely what is hidden and what is not.",
     "orrery synthesize traces/ -o like/ --seed 7\n"
     "orrery synthesize traces/ -o like64/ --scale ranks=64\n"
     "orrery synthesize a/ b/ c/ -o nobodys/ --obfuscate --format json",
     " seed scale obfuscate ", 1, SIZE_MAX, orr_command_synthesize},
    {"predict", "replay a recorded job, and say what it would do elsewhere", "TRACE...",
     "Replays the recorded durations over the recovered dependencies and prints the step time "
     "beside the recording's, with the error of each rank. With what-if options the replay is of "
     "another job: on other GPUs, on another network, without a kernel, with more ranks.\n"
     "Every prediction names what it rests on, and an error band where one is known.",
     "orrery predict traces/\n"
     "orrery predict --explain traces/\n"
     "orrery predict --gpu h100_sxm_80g --host-speed 1.5 traces/\n"
     "orrery predict --unprofiled auto traces/\n"
     "orrery predict --straggler 3:1.2x --html straggler.html traces/\n"
     "orrery predict --ranks 100000 --network h100_ncclx_region traces/\n"
     "orrery predict --plan pp=4,layers=96 --traced dp=2,tp=4,pp=2 --network h100_24k traces/",
     " gpu network ranks plan explain ", 1, SIZE_MAX, orr_command_predict},
    {"simulate", "what a step of a job would take that nobody has run", "[MODEL]",
     "Builds a training step (or another task) of a model in a parallel plan as execution graphs, one for "
     "each kind of rank, and gives them a timeline on a cluster: step time with its error band, MFU, "
     "memory, exposed communication, bubble, energy. MODEL is a name of `orrery models`, a YAML file, or a "
     "config.json of Hugging Face. Exit status 4: the plan cannot be, or its memory does not fit.\n"
     "A plan names degrees (tp, cp, ep, etp, pp, vp, dp; zero, shards), the batch (batch or micro_batches, "
     "micro_batch, seq), schedule=gpipe|1f1b|interleaved|zb_h1|zb_v|dualpipe, recompute=none|selective|full|"
     "block, precision=bf16|fp8|..., order=tp-cp-dp-pp, and switches such as sp, overlap_dp, overlap_tp, "
     "reshard, flash, fusion, graphs, offload; of a recommendation model also tables=FILE, a plan that `orrery tables` "
     "wrote, or tables=auto.\n"
     "Without MODEL: reads ASTRA-sim's own inputs (system, network, communication groups and a Chakra trace "
     "per rank) and gives the same times as its analytical mode, congestion unaware or aware. Where "
     "ASTRA-sim would hang, the cycle is named and the exit status is 4. --compare prints "
     "beside it what Orrery's own model says.",
     "orrery simulate llama3.1-405b --cluster h100_24k --plan tp=8,pp=16,dp=128,batch=2048,seq=8k\n"
     "orrery simulate mixtral-8x7b -c dgx_h100_pod --plan tp=2,ep=8,dp=64,batch=1024 --html plan.html\n"
     "orrery simulate llama3.1-70b -c dgx_h100 --task decode --prompt 4096 --plan tp=8,batch=32\n"
     "orrery simulate --astra-system sys.json --astra-network net.yml --workload traces/job",
     " cluster plan task ", 0, 1, orr_command_simulate},
    {"explore", "find the best arrangement of a job over machines, buildings and regions",
     "[MODEL]",
     "Searches the parallel plan of a training job, its placement over the sites of a cluster, its schedule and its "
     "network settings, until no plan can be better than the best by more than --gap. Prints the plan as `orrery "
     "simulate --plan` takes it, what it comes to, how far from the best it can be at most, why it won, what limits it, "
     "and the next ones with what they pay for and what would have to change for them to win. Every plan is "
     "judged by the simulation that `orrery simulate` makes.\n"
     "Anything can be fixed, bounded or left out. Ctrl-C ends the search with what it has (exit status 130), a second "
     "one at once. With --store nothing that was simulated is lost, not even to a kill -9: --resume goes on. Started by "
     "mpirun or srun, its processes share the work. Exit status 4: no plan is feasible; the tightest constraint and the "
     "smallest changes that would make one are printed. Exit status 1: --time-limit came before any plan.",
     "orrery explore llama3.1-405b --cluster h100_24k\n"
     "orrery explore llama3.1-405b -c three_buildings --exclude fp8 --max-sites 2 --html plan.html\n"
     "orrery explore llama3.1-70b -c dgx_h100_pod --fix tp=8,seq=4k --bounds 'pp<=4' --batch 512 --exact\n"
     "orrery explore llama3.1-405b -c h100_24k --objective budget --pareto cost --tokens 15.6T --price 2.5\n"
     "orrery explore llama3.1-405b -c two_regions --sensitivity --baselines all --store runs.db --resume\n"
     "orrery simulate llama3.1-8b -c dgx_h100 --plan \"$(orrery explore llama3.1-8b -c dgx_h100 -q -f plan)\"\n"
     "orrery explore --published-effects",
     " cluster batch seq objective fix bounds exclude ", 0, 1, orr_command_explore},
    {"compare", "two plans side by side, and what moved", "A B",
     "Simulates two jobs and shows their figures side by side, and which part of the step took what the other "
     "gave. A and B are MODEL@CLUSTER:PLAN; what one leaves out is as --model, --cluster and --plan say.",
     "orrery compare -m llama3.1-405b -c h100_24k tp=8,pp=16,dp=64,batch=2048 tp=8,pp=8,dp=128,batch=2048\n"
     "orrery compare --plan tp=8,pp=4,dp=32,batch=1024 llama3.1-70b@h100_24k llama3.1-70b@dgx_h100_pod",
     " model cluster plan ", 2, 2, orr_command_compare},
    {"sql", "ask the results that searches left in a database", "DATABASE [QUERY]",
     "Reads a database that `orrery explore --store` writes (or any other SQLite file) and prints what a query gives; "
     "without one, which tables and views there are, how many rows they have, and their columns. A search may be "
     "writing meanwhile. Nothing is changed: only what reads is let through.\n"
     "plan has a row for each plan that was left to be simulated or was: its text (which `orrery simulate --plan` takes), "
     "each of its fields (tp, pp, schedule...), bound_s, estimate_s, step_s (none: not simulated), peak_gib, fits, tokens_per_s, "
     "mfu_frac and the objectives. The views: best, the simulated plans of each search that fit, best first; tp_pp, the best of "
     "each pair of degrees; progress, how far each search is. search has what was asked, note what is said of it, family "
     "the sets of plans that are done. A field whose name is a word of SQL stands in quotes: \"order\", \"group\".\n"
     "Columns of one unit (_ns, _bytes, _frac) are made readable in tables and exact in CSV and JSON. Exit status "
     "2: the query is wrong; 3: the file cannot be read.",
     "orrery sql runs.db\n"
     "orrery sql runs.db 'SELECT place, step_s, bound_s, plan FROM best WHERE search = 1 LIMIT 5'\n"
     "orrery sql runs.db 'SELECT tp, pp, step_s, plan FROM tp_pp WHERE step_s > 0 ORDER BY step_s'\n"
     "orrery sql runs.db 'SELECT schedule, min(step_s), count(*) FROM plan WHERE fits GROUP BY schedule'\n"
     "orrery sql runs.db 'SELECT * FROM plan' --format csv -o plans.csv",
     "", 1, 2, orr_command_sql},
    {"tables", "the best way to spread a recommendation model's tables over ranks", "MODEL",
     "Chooses for every embedding table of a model how it is sharded (whole, by row, by column, within a host, as a "
     "grid, or on every rank) and on which ranks, so that the busiest rank of a step is done soonest and every rank "
     "has room. Prints where each table went and why, what each rank takes, a proven bound of how good any plan can "
     "be, and what the next GiB of memory would buy. --output writes the plan, which `--plan tables=FILE` of "
     "`orrery train` and `orrery simulate` reads.\n"
     "With --plan tables=FILE a given plan is priced beside the best one. Ctrl-C prints the best so far. Exit "
     "status 4: some table fits nowhere; it is named, with the memory that it needs.",
     "orrery tables dlrm-dcnv2 -c dgx_h100\n"
     "orrery tables dlrm-dcnv2 -c dgx_a100 --batch 64k -o plan.yaml --html plan.html\n"
     "orrery tables dlrm-criteo-1tb -c dgx_h100 --ranks 4 --memory 30GiB --kinds table,row --cost torchrec\n"
     "orrery tables dlrm-dcnv2 -c dgx_a100 --plan tables=plan.yaml",
     " cluster ranks batch memory plan ", 1, 1, orr_command_tables},
    {"experts", "which experts tokens chose, and where experts should stand", "ROUTES",
     "Reads routes (which token chose which experts in which layer: CSV as `orrery generate --expert-trace` writes it, "
     "JSON lines of vLLM, loads of experts as vLLM and SGLang keep them) and prints what they say: imbalance of ranks, "
     "whether prefill predicts decode, how far kinds of requests are apart, experts that are chosen together, what a "
     "layer tells of the next. Layers where one expert has over 90 % of the tokens are named, and figures told with "
     "and without them.\n"
     "With --cluster experts and their copies (--slots spare ones) are placed on ranks so that bytes over links and "
     "load of the fullest rank take the least time, and the placement stands beside the one that runs (--running) or "
     "the linear one. --output writes it, for Orrery, SGLang or vLLM. Exit status 4: no placement, or one that lacks "
     "experts, which are named.",
     "orrery experts routes.csv.gz\n"
     "orrery experts routes.csv.gz -c h100_superpod --ranks 64 --slots 2 -o placement.yaml\n"
     "orrery experts routes.csv.gz -c h100_superpod --ranks 32 --policy all --groups 4 --hold-out 20%\n"
     "orrery experts loads.json -c dgx_h100 --slots 2 --placement-format sglang -o placement.json\n"
     "orrery experts today.csv -c h100_superpod --ranks 64 --slots 2 --running placement.yaml --horizon 10k",
     " cluster ranks slots policy model groups running ", 1, 1, orr_command_experts},
    {"fleet", "what failures cost a job of months on many GPUs", "",
     "Simulates the life of a training job, failure by failure: found, scheduled, started, initialised, caught "
     "up; fully synchronous with checkpoints (sync), with nodes that stand ready (spares), and in replicas "
     "that fail for themselves (ft), whose decisions are made by the code of the fault-tolerant team. "
     "Prints the effective training time with the spread of lives, where the rest goes, how many replicas are "
     "down at once, and every rate and time that it rests on, with its source.\n"
     "Rates and causes are published ones (catalog/failures), or a file's; every time can be set, as a constant "
     "(60s), exp(5min), lognormal(2min, 10min) or uniform(1s, 3s). Exit status 4: a cluster or a policy that "
     "cannot be.",
     "orrery fleet\n"
     "orrery fleet --replicas 2,4,8,12,16,24 --html fleet.html\n"
     "orrery fleet --gpus 16384 --failures llama3_405b --policy sync --days 54\n"
     "orrery fleet --set rate=2.3,detect=30s,repair='lognormal(6h, 3d)' --sensitivity\n"
     "orrery fleet --timing orrery --tokens 15T --tokens-per-step 16M",
     " gpus policy replicas failures set ", 0, 0, orr_command_fleet},
    {"coordinator", "keep a team of replicas that train together", "",
     "Runs the coordinator of a team: it keeps which replicas are in, finds those that died, hang or are cut off, "
     "and decides which steps are made. Replicas are `orrery train --team HOST:PORT --replica NAME`, the same "
     "command on every machine but for the name. (`orrery train --replicas N` starts a team with its coordinator "
     "on one machine.)\n"
     "Its address is printed first, what happens on standard error. What it must remember is in a log: when it "
     "dies, start it again with the same log and address, and the team goes on; with --etcd on any machine. It ends "
     "when all replicas have left.",
     "orrery coordinator --replicas 3\n"
     "orrery coordinator --listen 10.0.0.1:29400 --replicas 16 --min-replicas 8 --metrics 10.0.0.1:29401\n"
     "orrery coordinator --listen :29400 --etcd http://a:2379,http://b:2379/jobs/7 --failure-timeout 500ms",
     " listen replicas min-replicas log ", 0, 0, orr_command_coordinator},
    {"team", "look at a team of replicas", "status [HOST:PORT] | forget REPLICA",
     "status asks a coordinator, where its --metrics says (default: 127.0.0.1:29401), and prints the state of the "
     "team: epoch, step, retries, losses and how long they took to recover from, and every replica: what it does, "
     "after which step, when it was last heard, how many reductions of the step it has handed in and has back.\n"
     "forget tells a coordinator (--coordinator, and its --key) that a replica will not come back since its machine "
     "is gone, so that a team which halts for it need not wait for what it may know.",
     "orrery team status\n"
     "orrery team status 10.0.0.1:29401 --format json\n"
     "orrery team forget r1 --coordinator 10.0.0.1:29400 --key team.key",
     "", 1, 2, orr_command_team},
    {"train", "train a model on this machine", "MODEL",
     "Trains a model in a parallel plan, each rank a process: pretraining, fine-tuning on answers (sft), on "
     "preferences (dpo), or by a reward (rl); transformers, mixtures of experts, recommendation. MODEL is a "
     "name of `orrery models`, a YAML file, or a checkpoint's folder; --plan scales it (layers=4,hidden=256) and "
     "spreads it (tp, cp, ep, pp, dp, zero; --ranks N is dp=N; tables=FILE or tables=auto: embedding tables as "
     "`orrery tables` plans them). A step runs the graph that `simulate` "
     "times; --record writes it as a trace that `analyze`, `predict` and `replay` read.\n"
     "--predict says first what the run should take on this machine, from what `orrery bench` measured here "
     "(or measures quickly, if that was never done), and compares afterwards.\n"
     "A loss that is not a number ends the run and names the operator that made it. Ctrl-C ends it after the "
     "step, with a checkpoint where --save says.\n"
     "--replicas N trains N replicas of it, each a batch of its own: when one dies, hangs or is cut off, the "
     "others go on with the step under way, and it comes back with their state. Without --team all run here, with "
     "their coordinator, and what dies is started again; at the end their states are compared. With --team "
     "HOST:PORT --replica NAME this is one of them, and `orrery coordinator` is elsewhere.",
     "orrery train gpt2 --plan layers=4,hidden=256,seq=128,batch=8 --data book.txt --steps 200\n"
     "orrery train llama2-7b --plan layers=4,hidden=256,tp=2,dp=2,seq=256,batch=8 --predict\n"
     "orrery train ./tiny --init ./tiny --task sft --data talks.jsonl --save runs/sft --export tuned/\n"
     "orrery train gpt2 --plan layers=4,hidden=256,seq=128,batch=8 --replicas 3 --save runs/team\n"
     "orrery train llama2-7b --plan tp=2 --team 10.0.0.1:29400 --replicas 16 --replica r07 --address 10.0.0.8\n"
     "mpirun -n 4 orrery train mixtral-8x7b --plan layers=2,hidden=256,ep=4,dp=4,seq=128,batch=8",
     " plan data steps learning-rate save resume export ", 1, 1, orr_command_train},
    {"generate", "continue texts with a model", "MODEL PROMPT...",
     "MODEL is a folder with safetensors and config.json, or a GGUF file; it is mapped, not loaded. Tokens are "
     "printed as they come; several prompts are answered side by side. A PROMPT of \"-\" is standard input, "
     "each of its lines a prompt. How fast it went, and what the machine could do at most, is said on standard "
     "error.",
     "orrery generate ./llama-3.2-1b 'The sky is'\n"
     "orrery generate model.gguf --chat --system 'Answer briefly.' 'Why is the sky blue?'\n"
     "orrery generate ./mixtral --quantize q8_0 --temperature 0.7 --top-p 0.9 --expert-trace experts.csv - < prompts.txt\n"
     "orrery generate ./mixtral --ranks 4 --placement placement.yaml --format json - < prompts.txt",
     " generated temperature top-p chat ", 2, SIZE_MAX, orr_command_generate},
    {"score", "how likely a model finds a text, or a click", "MODEL [FILE...]",
     "Prints the log-probability of each file's tokens and their perplexity; with --all every token with its own. "
     "Texts longer than the model's context are read in windows that overlap by half. "
     "\"-\" is standard input.\n"
     "With --weights MODEL is a recommendation model, a name of `orrery models` or a YAML file, and the answer "
     "is the probability of a click, a line a sample of --data; log loss and AUC are told on standard error, and in JSON.",
     "orrery score ./llama-3.2-1b chapter.txt\n"
     "orrery score model.gguf --all --format csv - < line.txt\n"
     "orrery score examples/models/small_dlrm.yaml --weights exported/ --data criteo.tsv > probabilities.txt",
     " weights data context ", 1, SIZE_MAX, orr_command_score},
    {"serve-tables", "answer lookups and samples of a recommendation model",
     "MODEL --weights FOLDER",
     "Serves the embedding tables of a model, and the model itself, until Ctrl-C or SIGTERM: POST /bags gives the sums "
     "of looked-up rows, POST /score the probabilities of clicks, as JSON or binary; GET /metrics is for Prometheus, "
     "GET /health for who watches. Answers are those of `orrery score`, to the bit. On SIGHUP or POST /swap the weights "
     "are read again. What was asked before the end is answered first.\n"
     "It listens on this machine alone unless --listen says otherwise, and asks nobody who they are.",
     "orrery serve-tables examples/models/small_dlrm.yaml --weights exported/\n"
     "curl -d '{\"lookups\": [{\"table\": \"t0\", \"ids\": [[1, 2], [3]]}]}' http://127.0.0.1:8470/bags",
     " weights listen ", 1, 1, orr_command_serve_tables},
    {"export", "write a checkpoint in another format", "MODEL -o OUTPUT",
     "MODEL is a folder with safetensors and config.json, or a GGUF file. OUTPUT that ends in .gguf becomes one, "
     "with the tokenizer inside; anything else becomes a folder as Hugging Face has it.",
     "orrery export ./llama-3.2-1b --quantize q8_0 -o llama.gguf\n"
     "orrery export llama.gguf --quantize bf16 -o ./llama",
     " quantize ", 1, 1, orr_command_export},
    {"replay", "run a recording as a benchmark on this machine", "TRACE...",
     "Runs the operators of a PyTorch execution trace or a Chakra trace on tensors of the recorded shapes, "
     "without PyTorch, and prints the times beside the recorded ones. What has no kernel here waits as long as it "
     "took, and is reported: coverage by count and by time. Ranks beyond the first run as processes and "
     "meet in their collectives.\n"
     "--extract writes what would run as a trace of its own, to be handed to someone else.",
     "orrery replay rank0.json.gz\n"
     "orrery replay --subtree 'ProfilerStep#3' --skip 'aten::copy_' --iterations 10 traces/\n"
     "orrery replay traces/ --part compute --extract job.et --obfuscate",
     " iterations begin end subtree skip ", 1, SIZE_MAX, orr_command_replay},
    {"bench", "measure this machine", "",
     "Measures products, attention, memory, the other kernels and collectives among processes, and writes a file "
     "of it: what `train --predict` goes by. The table shows what was reached.",
     "orrery bench\n"
     "orrery bench --quick -o laptop.yaml\n"
     "orrery bench --format json --ranks 8\n"
     "orrery bench --storage /data",
     " quick machine storage ", 0, 0, orr_command_bench},
    {"models", "list the models, or print the card of one", "[MODEL...]",
     "Prints the catalogue of models, or of each MODEL its architecture, its exact parameters part by part, "
     "what is published of its training, limits, memory and licence, each with its source.",
     "orrery models\n"
     "orrery models llama4-scout\n"
     "orrery models ./checkpoint/config.json",
     "", 0, SIZE_MAX, orr_command_models},
    {"ops", "the operator table", "",
     "Prints the operators of which every model is made: what they take and give, whether they have a "
     "gradient, and what they are called in PyTorch and in Chakra.",
     "orrery ops\n"
     "orrery ops --format json",
     "", 0, 0, orr_command_ops},
    {"hw", "list and compare devices, links, memory and clusters", "[NAME...]",
     "Prints the catalogue: what a device or a cluster is said to do, by whom, and on what that "
     "rests. Named ones are set side by side.\n"
     "--new makes a file of ten lines of a cluster of your own: on a terminal it asks for what options "
     "do not say, elsewhere it takes what is usual, and marks that. -c takes the file as it is.",
     "orrery hw\n"
     "orrery hw h100_sxm_80g a100_sxm_80g\n"
     "orrery hw h100_sxm_80g --calibration\n"
     "orrery hw --kind clusters\n"
     "orrery hw --new mine.yaml\n"
     "orrery hw --new mine.yaml --device \"H100 SXM\" --gpus 1024 --network \"InfiniBand NDR\"",
     " kind calibration new device gpus ", 0, SIZE_MAX, orr_command_hw},
    {"fit", "make a cost model out of measurements", "INPUT... -o MODEL",
     "Fits a table and boosted trees to the kernels of recordings and to measurements in CSV files (.csv, "
     ".csv.gz, .csv.zst), and prints the errors on shapes that were held out, beside those of the roofline "
     "on the same shapes. The file is what --cost takes.\n"
     "Everything measured of one family and shape is on one side: 60 % to fit to, 20 % to choose by, 20 % to test "
     "on, by --seed. The test side is used once, and what claims an error on it holds none of it. A "
     "family of too few shapes says so; then only shapes that were measured are answered.\n"
     "Columns of a CSV: device (a name of `orrery hw`, or what a recording calls it; not needed with "
     "--device), family (gemm, convolution, attention, embedding_forward, embedding_backward, concat, copy, "
     "transpose, interaction, norm, softmax, reduction, elementwise, optimizer, other), dtype (fp16), dims "
     "(1x4096x4096x1024, in the family's order; gemm: B M N K), ns; and where they matter op, kernel, flops, "
     "bytes or read_bytes and write_bytes, backward (0 or 1), copy (htod, dtoh, dtod). Others are "
     "passed over; # begins a remark.\n"
     "Trees are fitted with XGBoost; where it is not installed only the table is made.",
     "orrery fit traces/ -o v100.cost.json\n"
     "orrery fit --kind table kernels.csv -o h100.cost.json\n"
     "orrery fit --overheads v100.overheads.csv traces/ -o v100.cost.json",
     " device kind ", 1, SIZE_MAX, orr_command_fit},
    {"info", "what is in a file", "TRACE...",
     "Prints format, version, rank, number of nodes by kind, lanes, process groups, steps and "
     "what the reader had to let pass.",
     "orrery info rank0.json.gz\n"
     "orrery info --format json traces/",
     " from tolerant ", 1, SIZE_MAX, orr_command_info},
    {"validate", "check recordings, file by file and as a job, or checkpoints", "PATH...",
     "Reads each file strictly and says what is wrong with it, then checks the job: missing "
     "ranks, unmatched collectives, links between host and device traces. Of a folder that `train --save` wrote, "
     "all bytes of the latest checkpoint are held against their hashes. Exit status 3 when a "
     "file cannot be read or is damaged, 1 when the job has faults, 0 when all is well.",
     "orrery validate traces/\n"
     "orrery validate checkpoints/\n"
     "orrery validate --tolerant traces/",
     " from tolerant ", 1, SIZE_MAX, orr_command_validate},
    {"demo", "analyse a bundled recording, or simulate a published job", "[EXAMPLE]",
     "Analyses one of the recordings that come with Orrery: two ranks of a small transformer, "
     "unless EXAMPLE names another; \"list\" lists them. Those named after a model are simulated instead, and "
     "stand beside the figure that was published of them.",
     "orrery demo\n"
     "orrery demo --html demo.html\n"
     "orrery demo llama3_405b_16k_gpus",
     "", 0, 1, orr_command_demo},
    {"completion", "print completions for a shell, or the man page", "bash|zsh|fish|man",
     "Everything printed comes from the tables that the command itself runs on.",
     "orrery completion bash > /etc/bash_completion.d/orrery\n"
     "orrery completion man | man -l -",
     "", 1, 1, orr_command_completion},
};
const size_t orr_commands_n = sizeof orr_commands / sizeof *orr_commands;

const orr_command *orr_command_find(const char *name)
{
    for (size_t i = 0; i < orr_commands_n; i++)
        if (strcmp(orr_commands[i].name, name) == 0)
            return &orr_commands[i];
    return NULL;
}
