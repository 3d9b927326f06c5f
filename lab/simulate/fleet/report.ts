import type { BenchDocument, BenchReport, Table } from '../../frame/bench.ts'

/** One way to serve the fleet: what its readers got, and what it took. */
export interface FleetRun {
  readonly method: string
  readonly requests: number
  /** Refused, or without an end. */
  readonly unserved: number
  readonly ttftMeanMs: number
  readonly ttftP95Ms: number
  readonly ttftP99Ms: number
  /** Mean of the answers' means. */
  readonly tbtMs: number
  /** To the last token, mean. */
  readonly latencyMs: number
  /** TokenFlow Eq. 2, of each request. */
  readonly qos: number
  /** Waiting after the first token over reading time. */
  readonly stalls: number
  /** Of the cloud's tokens. */
  readonly dollars: number
  /** Of devices, beside idle power. */
  readonly joules: number
  readonly gpuBusy: number
  /** Private requests whose text left the device. */
  readonly privateLeft: number
  readonly privateRequests: number
  /** Share of the tokens that were written by small models. */
  readonly bySmallModels: number
  /** Null: none up to the most that were tried. */
  readonly neededGpus: number | null
  readonly durationS: number
  readonly parts: readonly { part: string; ttftMeanMs: number; ttftP95Ms: number; latencyMs: number }[]
}

const runsOf = ({ runs }: BenchDocument) => runs as FleetRun[]
const seconds = (ms: number | null): string => (ms === null || Number.isNaN(ms) ? '–' : (ms / 1_000).toFixed(2))
const percent = (share: number): string => `${(100 * share).toFixed(1)} %`

const head = [
  '',
  'TTFT mean, s',
  'P95',
  'P99',
  'TBT, ms',
  'whole answer, s',
  'QoS',
  'stalls',
  '$',
  'kJ of devices',
  'unserved',
  'private text left',
  'by small models',
  'GPUs busy',
  'GPUs needed',
]

const row = (run: FleetRun): string[] => [
  run.method,
  seconds(run.ttftMeanMs),
  seconds(run.ttftP95Ms),
  seconds(run.ttftP99Ms),
  run.tbtMs.toFixed(0),
  seconds(run.latencyMs),
  run.qos.toFixed(1),
  percent(run.stalls),
  run.dollars.toFixed(3),
  (run.joules / 1_000).toFixed(1),
  String(run.unserved),
  `${run.privateLeft} of ${run.privateRequests}`,
  percent(run.bySmallModels),
  percent(run.gpuBusy),
  run.neededGpus === null ? '–' : String(run.neededGpus),
]

export const fleetReport: BenchReport = {
  title: 'A fleet: all four methods together',
  contents: 'the figures of every run',
  figure(document) {
    const runs = runsOf(document)
    const panel = (title: string, yLabel: string, value: (run: FleetRun) => number) => ({
      kind: 'bars' as const,
      title,
      yLabel,
      groups: runs
        .filter(({ method }) => !method.startsWith('Brim without'))
        .map((run) => ({
          label: run.method.replace(' alone', '').replace('TokenFlow', 'Token Flow'),
          bars: [{ name: 'simulated', value: value(run) }],
        })),
    })
    return {
      title: '1,000 devices, one cloud',
      subtitle: `${String(document.conditions.requests)} requests of a trace day on ${String(document.conditions.gpus)} GPUs`,
      columns: 2,
      panels: [
        panel('Time to the first token, mean', 's', ({ ttftMeanMs }) => ttftMeanMs / 1_000),
        panel('Quality of service (Eq. 2)', 'of each request', ({ qos }) => qos),
        panel('Cost of the cloud’s tokens', '$', ({ dollars }) => dollars),
        panel('Energy of the devices', 'kJ', ({ joules }) => joules / 1_000),
      ],
    }
  },
  figureText: 'First tokens, quality of service, cost and energy of Brim, each paper alone, cloud only and device only',
  tables(document): Table[] {
    const runs = runsOf(document)
    const isAblation = ({ method }: FleetRun) => method.startsWith('Brim without')
    const parts = ['private', 'long', 'long, small devices', 'cheap', 'cheap, small devices']
    return [
      { title: 'Methods', head, rows: runs.filter((run) => !isAblation(run)).map(row) },
      { title: 'Brim without each part', head, rows: runs.filter((run) => isAblation(run) || run.method === 'Brim').map(row) },
      {
        title: 'By kind of request: mean TTFT / whole answer, s',
        head: ['', ...parts],
        rows: runs.map((run) => [
          run.method,
          ...parts.map((part) => {
            const own = run.parts.find((each) => each.part === part)
            return own ? `${seconds(own.ttftMeanMs)} / ${seconds(own.latencyMs)}` : '–'
          }),
        ]),
      },
    ]
  },
  findings: () =>
    `What the runs say:

- Only HAT and the device's own small model keep private text on the device. Clouds, PICE and DiSCo get it.
- Brim is not the fastest here. PICE sketches what is long, which frees GPUs, but a sketched answer's first token waits until a device has expanded its first
  sentence: the columns of long requests show it. Without PICE, Brim's TTFT is less than half.
- HAT's first token waits for hidden states on the uplink; int8 states take a third off it. A board computes for it about as much as for an answer of its own.
- TokenFlow alone needs fewer GPUs for the same level than first come, first served.
- DiSCo's budget sends some prompts to small devices alone. Phones read 30 to 80 prompt tokens per second, so that these requests
  make the tail of TTFT.
- *GPUs needed* has a dash where a tail does not come from the cloud: no number of GPUs shortens it.`,
  conditions({ conditions }) {
    const { devices, gpus, mostGpus, requests, simulatedS, dayS, dayRequests, cores, seed } = conditions
    const level = conditions.level as { readonly ttftMs: number; readonly stalls: number }
    const day = Number(dayS)
    return `Everything is simulated, on ${String(cores)} cores; seed ${String(seed)}.

- ${String(devices)} devices: 50 per thousand Jetson AGX Orin 32GB, 250 Orin NX, 300 Orin Nano, 200 each Pixel 7 Pro and Xiaomi 14. Links follow
  net-lumos5g; their means are HAT's WiFi for boards and the medians of net-speedtest-5g for phones.
- The day: azure-llm-2023 (conversations, code) and mooncake (conversations, prompts a tenth as long), the gaps between their blocks
  left out: ${String(dayRequests)} requests in ${day.toFixed(0)} s, ${(Number(dayRequests) / Number(devices)).toFixed(0)} for each device, which is a day compressed ${(86_400 / day).toFixed(0)} times. Of it, ${String(simulatedS)} s from the
  busiest minute on are simulated: ${String(requests)} requests, until the last is answered.
- A request is private with probability 0.3 (none of code), else long if its answer has 300 tokens or more, else cheap. All
  methods answer the same requests of the same devices on the same links.
- Brim: private by HAT, long by PICE, cheap by DiSCo, the engine by TokenFlow. *Each alone*: all requests by it, on an engine that takes prompts
  in chunks (TokenFlow: its own); *cloud only*: first come, first served. Where HAT is the method, small devices (Orin Nano, phones)
  ask the cloud: they would compute its two first layers for tens of tokens per second. Private requests are asked by AGX Orin and Orin NX.
- Cloud: Qwen2.5-32B on A100 80GB, ${String(gpus)} of them, each with the whole model. *GPUs needed*: the least number with P95 TTFT of at most
  ${level.ttftMs / 1_000} s and stalls of at most ${percent(level.stalls)} of reading time, by bisection up to ${String(mostGpus)}.
- *$*: the tokens that the cloud computed, at GPT-4o-mini's prices ($0.15 and $0.60 per million), under HAT also those that the device computes with it. *kJ*:
  computing and radio beside idle power. Readers take 5 or 10 tokens per second.
- *by small models*: tokens not written by the cloud's model. What that does to the quality of answers is not simulated.
- *QoS*: TokenFlow Eq. 2 of each request. A short window is simulated from an empty cloud on: differences of a few percent say nothing.`
  },
}
