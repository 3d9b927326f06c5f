import type { BenchDocument, BenchReport } from '../../frame/bench.ts'
import { markdownTable } from '../../frame/page.ts'
import { select } from '../../frame/runs.ts'
import { sum } from '../../frame/statistics.ts'
import { toDigits, toPercent } from '../../frame/tables.ts'
import { paperPrompts } from '../../simulate/paper/hat/published.ts'
import { demoModelText } from '../demo-model.ts'
import { draftMethodText } from './draft-table.ts'
import { hatFigure } from './figure.ts'
import { runsOf } from './figures.ts'
import type { Plan } from './plan.ts'
import { type HatRun, keptHatRun } from './runs.ts'
import { tablesOf } from './tables.ts'

export const hatReport: BenchReport = {
  title: 'HAT and its baselines',
  contents: 'every request, and every step of the cloud',
  figure: hatFigure,
  // The model of a busy bridge is another one, by which nothing is calibrated.
  keptRuns: (document) => runsOf(document).flatMap((run) => (run.measured === 'busy' ? [] : [keptHatRun(run)])),
  figureText: 'TTFT, TBT, delay of a cloud step, and requests within a limit',
  tables: tablesOf,
  findings,
  conditions: (
    document,
  ) => `${demoModelText(document)}, temperature 0, at most ${(document.conditions.plan as Plan).maxTokens} tokens per answer.

${methodText(document)}

${strategyText(document)}`,
}

const written = (value: number | null | undefined) => toDigits(value, 2)

function findings(document: BenchDocument): string {
  const { summary } = document
  const runs = runsOf(document)
  return [
    ...loopFinding(document, runs),
    ...leanFinding(summary),
    ...busyFinding(runs),
    `- The shipped adapter also reads deep states, which the paper's adapter does not. The paper's own adapter does not beat Medusa on
  these models: see [Drafters](../acceptance/acceptance.md).`,
    `- \`limitOverUShapeLong\` is the lowest ttftOverUShapeLong that these links allow: the upload of the prompt's states takes that long.`,
  ].join('\n')
}

function loopFinding({ summary }: BenchDocument, runs: readonly HatRun[]): string[] {
  const samples = select(runs, { measured: 'loaded', strategy: 'hat' }).flatMap((run) => run.samples)
  const tokensOf = (some: typeof samples) => sum(some.map(({ tokens }) => tokens))
  const looping = samples.filter((sample) => sample.looping)
  if (looping.length === 0) return []
  return [
    `- The headline leaves out looping answers: a request counts if no more than half of the 4-grams of its answer occur earlier in it.
  Looping answers give ${toPercent(tokensOf(looping) / tokensOf(samples))} of HAT's tokens under load, and are easy to draft. With them the accept length is
  ${written(summary.acceptLength)} instead of ${written(summary.acceptLengthWithoutLoops)}. TBT divided by U-shape's is ${written(summary.tbtOverUShapeShort)} instead of ${written(summary.tbtOverUShapeShortWithoutLoops)} for
  short prompts, and ${written(summary.tbtOverUShapeLong)} instead of ${written(summary.tbtOverUShapeLongWithoutLoops)} for long ones.`,
  ]
}

function leanFinding({ ttftOverUShapeLong: hat, ttftLeanOverUShapeLong: lean }: BenchDocument['summary']): string[] {
  if (hat == null || lean == null) return []
  return [
    `- \`u-shape-lean\` is U-shape that downloads only the last deep state of a prompt. That alone has ${toPercent((1 - lean) / (1 - hat))} of HAT's gain in
  TTFT over U-shape (long prompts, one device alone: ${written(lean)} against ${written(hat)}).`,
  ]
}

function busyFinding(runs: readonly HatRun[]): string[] {
  const shares = select(runs, { measured: 'loaded', strategy: 'u-shape' }).flatMap(
    ({ utilisation }) => utilisation?.computing ?? [],
  )
  if (shares.length === 0) return []
  const percent = (share: number) => (100 * share).toFixed(0)
  return [
    `- Under U-shape the cloud computes for ${percent(Math.min(...shares))} to ${percent(Math.max(...shares))} % of the time, so requests rarely wait for it. What a busy
  cloud changes is in the table of a busy bridge.`,
  ]
}

function methodText({ conditions }: BenchDocument): string {
  const plan = conditions.plan as Plan
  const cores = conditions.cores as { bridge: number; agentsLinksAndLoad: number } | null
  const { short, long } = paperPrompts
  return `- Bridge and agents are processes with one thread per operator. ${
    cores
      ? `The bridge is pinned to core ${cores.bridge}; agents, links and load share core ${cores.agentsLinksAndLoad}.`
      : 'They share all cores, because they could not be pinned.'
  } A run in which
  agents, links and load use more than ${100 * Number(conditions.busiest)} % of their core is void: all strategies are measured again at three quarters
  of the rate.
- The links are simulated. Between each agent and the bridge, a relay in the benchmark's process limits both directions with a token
  bucket whose rate is ${conditions.rates === 'random walks' ? 'a random walk' : 'a recorded trace'}. Three groups of devices (near, middle, far) lie within the paper's 5 to 10 MB/s up and
  10 to 15 MB/s down, times ${conditions.stateBytes} bytes per state over the paper's 8,192. The round-trip time beside that is
  ${conditions.rttMs} ± ${conditions.jitterMs} ms. One device alone is in the middle group. All strategies of a seed have the same links, arrivals and
  prompts.
- Prompts are those of ${conditions.prompts}, joined and cut to quantiles of log-normal lengths with the paper's mean and deviation:
  short ${short.mean} ± ${short.deviation} tokens (SpecBench), long ${long.mean} ± ${long.deviation} (CNN/DM), at most ${conditions.mostPromptTokens}. Requests arrive by a
  Poisson process at ${plan.devices} devices in shuffled order.
- TTFT is the time from the request to the first text, at the client; TBT is the time per token after the first. A row has the mean
  TTFT over requests and the TBT of all answers together, both as the median over seeds. p50 and p95 are over requests. Gaps are
  the times between delivered tokens, 0 between tokens of one piece.
- The lower limit of TTFT is the input pass of the first chunk, the upload of all states by the link's trace, g of the last chunk, one
  round trip and one row through the head.
- \`batch16OverSerial\` compares sixteen sessions that decode together with the same sessions one after the other, on the bridge itself,
  without links and devices.
- A busy bridge serves the demonstration model with layers after its own whose attention and MLP are computed and add zeros, ${plan.busy.layers} layers in
  all: answers, drafters, devices and links are as before. \`hat-fixed\` is HAT with chunks of fixed size in place of Eq. 3.
- The parts of a round are measured by one device alone, while bridge and agent record their machines. The relay says how long each frame
  was on the link. The rest is sockets, frames, machines and the client.
- The cloud alone is the whole model on the bridge, asked there without a link: its tokens follow one another without a round trip each. HAT's tokens
  are as fast up to the round-trip time that the table names (0: at none), and the same cloud serves so many times as many sessions at the same
  tokens per second. What else HAT buys is that the text stays on the device.
- Intervals are the middle 95 % of 1,000 resamples of requests, each with its pair under the other strategy.
${draftMethodText}
- A looping answer is one in which more than half of the 4-grams occur earlier in it.
- Every answer except those with int8 states was compared with the reference: the whole model in one process, with the wire's rounding
  at the cuts.`
}

function strategyText({ conditions }: BenchDocument): string {
  const code = (options: string) => (options === '' ? 'the defaults' : `\`${options}\``)
  const strategies = Object.entries(conditions.strategies as Record<string, { agent: string; bridge: string }>)
  const rows = strategies.map(([name, { agent, bridge }]) => [name, code(agent), code(bridge)])
  return `Options of the strategies, those of the bridge for short prompts:

${markdownTable(['strategy', 'brim agent run', 'brim bridge run'], rows)}`
}
