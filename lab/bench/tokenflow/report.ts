import { qosPenalties } from '../../../core/policy/tokenflow/quality.ts'
import type { BenchDocument, BenchReport } from '../../frame/bench.ts'
import { markdownTable } from '../../frame/page.ts'
import { maxOf } from '../../frame/statistics.ts'
import { toPercent } from '../../frame/tables.ts'
import { demoModelText } from '../demo-model.ts'
import { tokenFlowFigure } from './figure.ts'
import { runsOf } from './figures.ts'
import { keptFlowRun } from './runs.ts'
import { argsOf, type ServerName, servers } from './servers.ts'
import { tablesOf } from './tables.ts'
import { lengthDeviation, lengthScale, readingLoads } from './workload.ts'

export const tokenFlowReport: BenchReport = {
  title: 'TokenFlow and its baselines',
  contents: 'every request with the arrival of each of its tokens',
  figure: tokenFlowFigure,
  keptRuns: (document) => runsOf(document).map(keptFlowRun),
  figureText: 'Throughput and TTFT by workload, requests over time, timelines of answers, and the ablation',
  tables: tablesOf,
  findings,
  conditions: (document) => `${demoModelText(document)}, temperature 0.\n\n${methodText(document)}\n\n${serverText()}`,
}

function findings(document: BenchDocument): string {
  const runs = runsOf(document)
  const cores = runs.flatMap(({ bridgeCore }) => bridgeCore ?? [])
  const readers = runs.flatMap(({ readersCore }) => readersCore ?? [])
  return [
    `- The ratios of the summary are of bursts, each the median over workloads and seeds; the names that end in "Spread" are those of
  Poisson arrivals and traces.`,
    `- The bridge used ${toPercent(cores.length === 0 ? null : Math.min(...cores))} to ${toPercent(maxOf(cores))} of its core, the readers at most ${toPercent(maxOf(readers))} of theirs.`,
  ].join('\n')
}

function methodText({ conditions }: BenchDocument): string {
  const cores = conditions.cores as { bridge: number; readers: number } | null
  const [slow, middle, fast] = Object.values(readingLoads).map((load) => load.toFixed(2))
  return `- One \`brim bridge run\` with one thread per operator, a new process for each run, and readers in the benchmark's process, each an
  HTTP client of \`/v1/completions\` with \`stream\`. ${
    cores ? `The bridge is pinned to core ${cores.bridge}, the readers to core ${cores.readers}.` : 'They share all cores.'
  } The policies take turns on each workload; a
  ratio compares runs of one workload and seed.
- Scale: lengths are the paper's times ${lengthScale} (RTX 4090: prompts of 512 and 1,024 tokens, answers of 2,048), normal with a
  deviation of ${lengthDeviation} of the mean. Numbers of requests in bursts are the paper's. Before each seed, 16 streams in full steps
  measure what the bridge generates when it is saturated; rates follow from that. The paper's 20, 25 and 30 tokens/s are ${slow}, ${middle}
  and ${fast} of it for all readers together; every workload has 25 unless it says otherwise.
- "Poisson 2" and "Poisson 4" ask for two and four times as many tokens per second as a saturated bridge generates. The traces
  are the first 80 requests of [lab/bench/tokenflow/traces](../../../lab/bench/tokenflow/traces/README.md), compressed to twice that,
  with lengths scaled to means of 128 and 256 tokens.
- A crowd is not of the paper: 300 readers at once, prompts of 64 tokens, answers of 128. A quarter each takes 1, 2, 3 and 4 times
  the slowest's rate; together they take what a saturated bridge generates (matched), or 4.5 times as much (overload). *default* is
  the policy that a bridge has without an option. All answers count, and all of their stalls.
- The fast tier holds one in ${conditions.overcommitment} bytes of the KV that all requests of a workload have in the end.
- TTFT is the time from the request to the first text, at the client; a quantile is over requests. Throughput is over the time from
  the first request to the last token. Effective throughput weighs a token by what its reader has not read yet when it arrives
  (TokenFlow Eq. 1): fully below 10 % of the answer's length, not at all above 20 %. A reader begins with the first token and takes
  tokens at the rate of the request; a stall is the time without a token to read before the last one. QoS is TokenFlow Eq. 2 with
  λ = ${qosPenalties.ttftPerS} and μ = ${qosPenalties.stallPerS} weighted tokens per second.
- *core*: CPU time of the bridge per second. Where other work shares the core, it is below 1, and runs do not compare well.
- A token that completes no character arrives with the text that does.
- \`stepLoopOverhead\` is the time between steps over the time in steps while 16 streams decode. \`writeThroughCost\` is the share of
  the throughput that write-through costs while the fast tier holds all streams, on two bridges in turn.
- \`warmTtftAfterRestart\`: a bridge with \`--kv-slow file\` is killed during an answer to 1,000 tokens. The time to the first text of the rest
  (after the longest pause, as the first text may come from the journal) is over that of 1,000 tokens that the same process has not seen,
  each the median over restarts; \`nextTurnAfterRestart\` likewise, of a prompt that goes on from 1,000 tokens answered before.`
}

function serverText(): string {
  const rows = (Object.keys(servers) as ServerName[]).map((name) => [name, `\`${argsOf(name).join(' ')}\``])
  return `Options of the bridges:\n\n${markdownTable(['name', 'brim bridge run'], rows)}`
}
