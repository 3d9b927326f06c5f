import type { BenchDocument } from '../frame.ts'
import type { Plan } from './plan.ts'
import { tablesOf } from './tables.ts'
import { promptLengths } from './workload.ts'

export function hatPage(document: BenchDocument, goals: readonly string[][]): string {
  const { conditions } = document
  const plan = conditions.plan as Plan
  const cores = conditions.cores as { bridge: number; agentsLinksAndLoad: number } | null
  const flags = Object.entries(conditions.strategies as Record<string, { agent: string; bridge: string }>)
  const row = (cells: readonly string[]) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
  const table = (head: readonly string[], rows: readonly (readonly string[])[]) =>
    [row(head), row(head.map(() => '---')), ...rows.map(row)].join('\n')
  const code = (text: string) => (text === '' ? 'the defaults' : `\`${text}\``)
  const tables = tablesOf(document).map(({ title, head, rows }) => `## ${title}\n\n${table(head, rows)}`)
  const load = `${Number(conditions.loadAverageBefore).toFixed(1)} before and ${Number(conditions.loadAverageAfter).toFixed(1)} after`
  return `# HAT and its baselines

Made by \`${conditions.command} --save\` on ${conditions.startedAt} (commit ${conditions.commit ?? 'unknown'}); every request
and every step of the cloud is in [hat.json](hat.json).

![TTFT, TBT, delay of a cloud step, and requests that keep a limit](hat.svg)

${table(['figure', 'measured', 'reach', ''], goals)}

${tables.join('\n\n')}

## Conditions

${conditions.cpu}, ${conditions.memoryGiB} GiB, ${conditions.platform}; Node ${conditions.node};
load average ${load} (the benchmark's own processes included). ${conditions.model} (${conditions.format}, model id
${String(conditions.modelId).slice(0, 12)}), temperature 0, at most ${plan.maxTokens} tokens an answer.

- Bridge and agents are processes, each with one thread per operator. ${
    cores
      ? `The bridge is held to core ${cores.bridge}; agents, links and load share core ${cores.agentsLinksAndLoad}.`
      : 'They share whatever cores there are: nothing could be pinned.'
  } A run whose agents, links and load need more than ${100 * Number(conditions.busiest)} % of their core is void: all strategies are
  asked again at three quarters of the rate.
- Simulated are the links: between any agent and the bridge stands a relay in the benchmark's process with a token bucket
  each way, its rate ${
    conditions.rates === 'random walks' ? 'a random walk' : 'after a recorded trace'
  }, in three groups of devices (near, middle, far) within the paper's 5 to 10 MB/s up and 10 to 15 MB/s down, times
  ${conditions.stateBytes} bytes per state over its 8,192; round trip ${conditions.rttMs} ± ${conditions.jitterMs} ms beside that. One device alone is of the middle group.
  Every strategy of a seed has the same links, arrivals and prompts.
- Prompts are ${conditions.prompts}, joined and cut to the quantiles of log-normal lengths with the paper's mean and deviation:
  short ${promptLengths.short.mean} ± ${promptLengths.short.deviation} tokens (SpecBench), long ${promptLengths.long.mean} ± ${promptLengths.long.deviation} (CNN/DM), none longer than ${conditions.mostPromptTokens}.
  Requests arrive by a Poisson process at ${plan.devices} devices in shuffled turns.
- TTFT is from the request to the first text, at the client. TBT is the time per token after the first. A row's TTFT is the mean
  over requests, its TBT that of all answers together, both the median over seeds; p50 and p95 are of requests, those of
  gaps of the times between delivered tokens (0 where they come together).
- The limit of a TTFT: the input pass of the first chunk, the upload of all states by the link's trace, g of the last chunk, one
  round trip, one row through the head. \`limitOverUShapeLong\` is what no TTFT over U-shape's can be below on these links.
- Sixteen sessions at once and one by one (\`batch16OverSerial\`): the same tokens asked of the bridge itself, without links and devices.
- Every answer but those with int8 states was held against the reference (the whole model in one process with the wire's
  rounding at the cuts).

How the strategies differ (bridge options for short prompts):

${table(
  ['strategy', 'brim agent run', 'brim bridge run'],
  flags.map(([name, { agent, bridge }]) => [name, code(agent), code(bridge)]),
)}
`
}
