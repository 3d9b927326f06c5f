import type { BenchDocument, BenchReport, Table } from '../../frame/bench.ts'
import { barPanel, linePanel } from '../../frame/panels.ts'
import { type Column, tableOf, toPercent } from '../../frame/tables.ts'
import { findingsOf } from './findings.ts'
import type { FleetConditions } from './fleet-conditions.ts'
import type { FleetRun } from './fleet-run.ts'
import { medianOf, runsOf, spreadOf } from './medians.ts'
import { ablations, methods } from './methods.ts'
import { goal, needsOf } from './needs.ts'

const conditionsOf = ({ conditions }: BenchDocument) => conditions as unknown as FleetConditions
const all = ({ runs }: BenchDocument) => runs as readonly FleetRun[]
const seconds = (ms: number): string => (Number.isNaN(ms) ? '–' : (ms / 1_000).toFixed(2))
const percent = (share: number): string => toPercent(share, 1)

type Figure = readonly [title: string, value: (run: FleetRun) => number, text: (value: number) => string]

const ttftMean: Figure = ['TTFT mean, s', ({ ttftMeanMs }) => ttftMeanMs, seconds]
const ttftP95: Figure = ['P95', ({ ttftP95Ms }) => ttftP95Ms, seconds]
const qoe: Figure = ['QoE', ({ qoe }) => qoe, (value) => value.toFixed(3)]

/** Shown with the range over the seeds. */
const ranged: readonly Figure[] = [ttftMean, ttftP95, qoe]
const plain: readonly Figure[] = [
  ['P99', ({ ttftP99Ms }) => ttftP99Ms, seconds],
  ['TBT, ms', ({ tbtMs }) => tbtMs, (value) => value.toFixed(0)],
  ['whole answer, s', ({ latencyMs }) => latencyMs, seconds],
  ['QoS', ({ qos }) => qos, (value) => value.toFixed(1)],
  ['stalls', ({ stalls }) => stalls, percent],
  ['$ tokens', ({ tokenDollars }) => tokenDollars, (value) => value.toFixed(3)],
  ['$ energy', ({ energyDollars }) => energyDollars, (value) => value.toFixed(4)],
  ['J of devices', ({ joules }) => joules, (value) => value.toFixed(0)],
  ['unserved', ({ unserved }) => unserved, (value) => value.toFixed(0)],
  ['private text left', ({ privateLeft, privateRequests }) => privateLeft / privateRequests, (value) => percent(value)],
  ['by small models', ({ bySmallModels }) => bySmallModels, percent],
  ['GPUs busy', ({ gpuBusy }) => gpuBusy, percent],
]

function textOf(runs: readonly FleetRun[], [, value, text]: Figure): string {
  return runs.length === 0 ? '–' : text(medianOf(runs, value))
}

function rangeOf(runs: readonly FleetRun[], [, value, text]: Figure): string {
  if (runs.length === 0) return '–'
  const { median, least, most } = spreadOf(runs, value)
  return runs.length === 1 ? text(median) : `${text(median)} (${text(least)}–${text(most)})`
}

const nameOf: Column<string> = ['', (name) => name]

/** A row for each method. */
function fullTable(title: string, names: readonly string[], runs: readonly FleetRun[], gpus: number): Table {
  const columnsOf = (figures: readonly Figure[], text: typeof textOf) =>
    figures.map((figure): Column<string> => [figure[0], (name) => text(runsOf(runs, name, gpus), figure)])
  return tableOf(title, names, [nameOf, ...columnsOf(ranged, rangeOf), ...columnsOf(plain, textOf)])
}

const names = methods.map(({ name }) => name)
const withoutParts = ['Brim', ...ablations.map(({ name }) => name)]
const parts = ['private', 'long', 'long, small devices', 'cheap', 'cheap, small devices']

export const fleetReport: BenchReport = {
  title: 'A fleet: all four methods together',
  contents: 'the figures of every run',
  figure(document) {
    const { counts, studied, seeds } = conditionsOf(document)
    const runs = all(document)
    const byGpus = (title: string, yLabel: string, value: (run: FleetRun) => number) =>
      linePanel(
        title,
        'GPUs',
        yLabel,
        methods
          .filter(({ needsCloud }) => needsCloud)
          .flatMap(({ name }) =>
            counts.map((gpus) => [name.replace(' alone', ''), gpus, medianOf(runsOf(runs, name, gpus), value)] as const),
          ),
      )
    const bars = (title: string, yLabel: string, value: (run: FleetRun) => number) =>
      barPanel(
        `${title}, ${studied} GPUs`,
        yLabel,
        names.map((name) => {
          const label = name.replace(' alone', '').replace('TokenFlow', 'Token Flow')
          return [label, 'simulated', medianOf(runsOf(runs, name, studied), value)]
        }),
      )
    return {
      title: '1,000 devices, one cloud',
      subtitle: `The same requests of a trace day by each method, with few and many GPUs; median of ${seeds.length} seeds`,
      columns: 2,
      panels: [
        byGpus('Time to the first token, mean', 's', ({ ttftMeanMs }) => ttftMeanMs / 1_000),
        byGpus('Time to the first token, P95', 's', ({ ttftP95Ms }) => ttftP95Ms / 1_000),
        byGpus('Quality of experience', '1: nothing came late', ({ qoe }) => qoe),
        byGpus('Stalls', '% of reading time', ({ stalls }) => 100 * stalls),
        bars('Cost of 1,000 requests', '$', ({ tokenDollars, energyDollars }) => tokenDollars + energyDollars),
        bars('Energy of the devices', 'J per request', ({ joules }) => joules),
      ],
    }
  },
  figureText:
    'First tokens, quality of experience, stalls, cost and energy of Brim, each paper alone, cloud only and device only',
  tables(document): Table[] {
    const { counts, studied, overloaded, ablated } = conditionsOf(document)
    const runs = all(document)
    const byGpus = (title: string, figure: Figure) =>
      tableOf(title, names, [
        nameOf,
        ...counts.map((gpus): Column<string> => [`${gpus} GPUs`, (name) => textOf(runsOf(runs, name, gpus), figure)]),
      ])
    return [
      fullTable(`Methods, ${studied} GPUs`, names, runs, studied),
      fullTable(`Methods, overloaded: ${overloaded} GPUs`, names, runs, overloaded),
      byGpus('Load: mean TTFT in s', ttftMean),
      byGpus('Load: P95 of TTFT in s', ttftP95),
      byGpus('Load: QoE', qoe),
      tableOf('GPUs needed', needsOf(runs), [
        ['', ({ method }) => method],
        ['mean TTFT, s', ({ level }) => `≤ ${seconds(level.ttftMeanMs)}`],
        ['P95, s', ({ level }) => `≤ ${seconds(level.ttftP95Ms)}`],
        ['stalls', ({ level }) => `≤ ${percent(level.stalls)}`],
        ['GPUs', ({ low, high }) => (high - low > 1 ? `${low + 1} to ${high}` : String(high))],
      ]),
      ...ablated.map((gpus) => fullTable(`Brim without each part, ${gpus} GPUs`, withoutParts, runs, gpus)),
      ...[studied, overloaded].map((gpus) =>
        tableOf(
          `By kind of request, ${gpus} GPUs: mean TTFT / whole answer, s; QoE`,
          [...names, ...(ablated.includes(gpus) ? withoutParts.slice(1) : [])],
          [nameOf, ...parts.map((part): Column<string> => [part, (name) => partText(runsOf(runs, name, gpus), part)])],
        ),
      ),
    ]
  },
  findings(document) {
    return findingsOf(all(document), conditionsOf(document))
  },
  conditions(document) {
    const { devices, counts, seeds, windowS, warmUpS, coolDownS, requests, dayS, dayRequests, cores } = conditionsOf(document)
    return `Everything is simulated, on ${cores} cores. Figures are medians of the seeds ${seeds.join(', ')}, with the range over them in brackets. A seed decides which requests
are private, which devices ask, how fast they are read, and when in its trace each link begins.

- ${devices} devices: 50 per thousand Jetson AGX Orin 32GB, 250 Orin NX, 300 Orin Nano, 200 each Pixel 7 Pro and Xiaomi 14. Links follow
  net-lumos5g; their means are HAT's WiFi for boards and the medians of net-speedtest-5g for phones.
- The day: azure-llm-2023 (conversations, code) and mooncake (conversations, prompts a tenth as long), the gaps between their blocks
  left out: ${dayRequests} requests in ${dayS.toFixed(0)} s, ${(dayRequests / devices).toFixed(0)} for each device, which is a day compressed ${(86_400 / dayS).toFixed(0)} times. Of it, the busiest ${windowS} s
  are simulated: ${requests} requests, until the last is answered. Those of the first ${warmUpS} s and of the last ${coolDownS} s do not count.
- A request is private with probability 0.3 (none of code), else long if its answer has 300 tokens or more, else cheap. All
  methods answer the same requests of the same devices on the same links.
- Brim: all by the mode auto, which gives a half of the prompt tokens to the limited side and lets readers wait 2 s for a device. Its remote way is HAT where the text
  is private, else the best of the cloud, the cloud's plan, which may sketch, and HAT. HAT has int8 states, int4 weights on devices, drafts that end by
  their pace and branch at each token; the engine works by TokenFlow.
  *Each alone*: all requests by it, as its paper has it, on an engine that takes prompts in chunks (TokenFlow: its own); *cloud only*: first come, first served. Where
  HAT is the method, small devices (Orin Nano, phones) ask the cloud: they would compute its two first layers for tens of tokens per
  second. Private requests are asked by AGX Orin and Orin NX. All boards expand sketches.
- Cloud: Qwen2.5-32B on A100 80GB, ${counts.join(', ')} of them, each with the whole model. *GPUs needed*: the least number, as
  far as it was searched for, with a mean TTFT of at most ${goal.ttftMeanMs / 1_000} s, a P95 of at most ${goal.ttftP95Ms / 1_000} s, and stalls of at most ${percent(goal.stalls)} of reading time. Where ${String(counts.at(-1))} GPUs do
  not reach that, because devices and links take longer, the level is 1.1 times what they reach: more GPUs than needed for it change little.
- *QoE*, the headline, is Andes' (Liu et al. 2024): what a reader has read by any time, over what the reader would have with a first token within
  1 s and no stalls. *QoS* is Eq. 2 of TokenFlow, of each request: tokens far ahead of the reader are worth 0 there, so that pacing alone raises
  it; QoE neither rewards nor punishes tokens that come early. Readers take 5 or 10 tokens per second.
- *$* is for a thousand requests: the tokens that the cloud computed at GPT-4o-mini's prices ($0.15 and $0.60 per million), under HAT also
  those that the device computes with it; the energy that devices take beside idle power at $0.165 per kWh (EIA, households, 2024).
- *by small models*: tokens not written by the cloud's model. What that does to the quality of answers is not simulated.`
  },
}

function partText(runs: readonly FleetRun[], part: string): string {
  const own = runs.flatMap((run) => {
    const found = run.parts.find((each) => each.part === part)
    return found ? [{ ...run, ...found }] : []
  })
  if (own.length === 0) return '–'
  const of = (value: (run: FleetRun) => number) => medianOf(own, value)
  return `${seconds(of((run) => run.ttftMeanMs))} / ${seconds(of((run) => run.latencyMs))}; ${of((run) => run.qoe).toFixed(2)}`
}
