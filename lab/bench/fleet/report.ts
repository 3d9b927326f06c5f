import type { BenchDocument, BenchReport, Table } from '../../frame/bench.ts'
import { loadText } from '../../frame/page.ts'
import type { Figure } from '../../plot/plot.ts'
import type { FleetBroker } from './cluster.ts'

interface Sized {
  readonly broker: FleetBroker
  readonly devices: number
}

/** The fleet has grown to a size, and rests. CPU and memory are those of the bridge and its broker. */
export interface FleetRun extends Sized {
  readonly what: 'grow'
  /** Since the size before; null: not all connected in time. */
  readonly connectS: number | null
  readonly connectCpuS: number
  readonly attempts: number
  readonly refused: number
  readonly restCpuPercent: number
  /** From the publication of a sample until the bridge shows it; until its PUBACK. */
  readonly telemetryP99Ms: number | null
  readonly pubackP99Ms: number | null
  readonly samples: number
  readonly lost: number
  readonly rssMb: number
  readonly isBroken: boolean
}

/** Jobs, and `brim fleet status`. */
export interface WorkRun extends Sized {
  readonly what: 'work'
  readonly submitted: number
  readonly jobs: number
  readonly dispatchP99Ms: number | null
  readonly pubackP99Ms: number | null
  readonly fleetStatusS: readonly number[]
  readonly rssMb: number
}

/** After the death of the process that the devices are connected to. */
export interface RestartRun extends Sized {
  readonly what: 'restart'
  readonly upS: number
  readonly backS: number | null
  readonly backCpuS: number
  readonly attempts: number
  readonly refused: number
  /** Attempts while nothing listened. */
  readonly unreached: number
  readonly refusedShare: number
}

export const fleetReport: BenchReport = {
  title: 'A fleet',
  contents: 'every size of the fleet',
  figure,
  figureText: 'CPU at rest and memory against the size of the fleet',
  tables: (document) => [sizeTable(document)],
  findings: (document) => breakingText(document).join('\n'),
  conditions(document) {
    const { cpu, cores, devices, sampleEveryS, startsPerS, jobsPerS, watched } = document.conditions
    return `${cpu}, ${cores} cores for everything; ${loadText(document)}. A \`brim bridge run\` process with the demonstration's
bundle, without TLS and enrolment; three processes hold the devices.

- A device is an MQTT connection with the packets of an agent: will, six subscriptions, retained state, a complete sample and
  then deltas every ${sampleEveryS} s, jobs from acceptance to result, reconnection with full jitter. ${startsPerS} start per second.
- *rssMb*, *connectCpuS* and *restCpuPercent* are those of the bridge and, with mosquitto, of both processes; memory is the peak
  after ${devices} devices have worked. *connectCpuS* includes the telemetry of devices that are connected already.
- *telemetryP99Ms*: from the publication of a sample until the bridge's event stream of the device shows it, of ${watched} devices;
  *pubackP99Ms*: until the broker's acknowledgement, of all.
- *backAfterRestartS*: from the SIGKILL of the bridge (with mosquitto: of the broker) until all devices are connected, subscribed
  and ready for the bridge again. *refusedShare*: of the attempts that found a listener, those that were refused or timed out.
- *fleetStatusS*: the slowest run of the program \`brim fleet status\`, while ${jobsPerS} jobs per second are submitted.
- *mostDevices*: the largest size at which all connected and samples took less than 5 s.`
  },
}

const grownIn = ({ runs }: BenchDocument) =>
  (runs as readonly (FleetRun | WorkRun | RestartRun)[]).filter((run) => run.what === 'grow')

function sizeTable(document: BenchDocument): Table {
  const written = (value: number | null, digits = 1) => (value === null ? '–' : value.toFixed(digits))
  return {
    title: 'By size',
    head: ['broker', 'devices', 'connect s', 'CPU s', 'refused', 'rest, % of a core', 'shown p99 ms', 'PUBACK p99 ms', 'MB', ''],
    rows: grownIn(document).map((run) => [
      run.broker,
      String(run.devices),
      ...[run.connectS, run.connectCpuS].map((value) => written(value)),
      String(run.refused),
      ...[run.restCpuPercent, run.telemetryP99Ms, run.pubackP99Ms].map((value) => written(value)),
      String(run.rssMb),
      run.isBroken ? 'breaks' : '',
    ]),
  }
}

/** Where each broker breaks. */
function breakingText(document: BenchDocument): string[] {
  const grown = grownIn(document)
  return [...new Set(grown.map(({ broker }) => broker))].map((broker) => {
    const own = grown.filter((run) => run.broker === broker)
    const broken = own.find(({ isBroken }) => isBroken)
    const most = own.findLast(({ isBroken }) => !isBroken)?.devices ?? 0
    return broken
      ? `- ${broker}: ${most} devices work, ${broken.devices} do not.`
      : `- ${broker}: not broken at ${most} devices, the largest size that was tried.`
  })
}

function figure(document: BenchDocument): Figure {
  const grown = grownIn(document)
  const brokers = [...new Set(grown.map(({ broker }) => broker))]
  const panel = (title: string, yLabel: string, figureOf: (run: FleetRun) => number) => ({
    kind: 'lines' as const,
    title,
    xLabel: 'devices',
    yLabel,
    series: brokers.map((broker) => ({
      name: broker,
      points: grown.filter((run) => run.broker === broker && !run.isBroken).map((run) => [run.devices, figureOf(run)] as const),
    })),
  })
  return {
    title: 'A fleet on one bridge',
    subtitle: `${document.conditions.cpu}, ${document.conditions.cores} cores; a sample every ${document.conditions.sampleEveryS} s`,
    columns: 3,
    panels: [
      panel('At rest', '% of a core', ({ restCpuPercent }) => restCpuPercent),
      panel('Until the bridge shows a sample', 'p99, ms', ({ telemetryP99Ms }) => telemetryP99Ms ?? 0),
      panel('Memory, peak', 'MB', ({ rssMb }) => rssMb),
    ],
  }
}
