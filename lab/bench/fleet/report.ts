import { loadText } from '../../frame/page.ts'
import { linePanel } from '../../frame/panels.ts'
import { runsBy } from '../../frame/runs.ts'
import { maxOf } from '../../frame/statistics.ts'
import type { DocumentOf, FigureRow, FigureTable, ShownRuns } from '../../frame/tabled-bench.ts'
import { tableOf, toDigits } from '../../frame/tables.ts'
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

export type AnyFleetRun = FleetRun | WorkRun | RestartRun

const written = (value: number | null) => toDigits(value, 1)

type Runs = readonly AnyFleetRun[]

const grownOf = (runs: Runs) => runs.filter((run) => run.what === 'grow')
const workOf = (runs: Runs) => runs.find((run) => run.what === 'work')
const restartOf = (runs: Runs) => runs.find((run) => run.what === 'restart')

/** Of the runs beside one broker; the first size is the one that works. */
const brokerFigures: FigureTable<AnyFleetRun> = {
  rssMb: [(runs) => workOf(runs)?.rssMb, { max: 500 }],
  telemetryP99Ms: [(runs) => grownOf(runs)[0]?.telemetryP99Ms, { max: 50 }],
  pubackP99Ms: [(runs) => grownOf(runs)[0]?.pubackP99Ms],
  backAfterRestartS: [(runs) => restartOf(runs)?.backS, { max: 60 }],
  refusedShare: [(runs) => restartOf(runs)?.refusedShare, { max: 0.05 }],
  connectCpuS: [(runs) => grownOf(runs)[0]?.connectCpuS, { max: 20 }],
  restCpuPercent: [(runs) => grownOf(runs)[0]?.restCpuPercent, { max: 60 }],
  fleetStatusS: [(runs) => maxOf(workOf(runs)?.fleetStatusS ?? []), { max: 1 }],
  dispatchP99Ms: [(runs) => workOf(runs)?.dispatchP99Ms],
  mostDevices: [(runs) => grownOf(runs).findLast(({ isBroken }) => !isBroken)?.devices],
}

/** Of the runs beside a broker, rounded; undefined where there was no such broker. */
const beside = (at: 0 | 1, [of, goal]: FigureRow<AnyFleetRun>): FigureRow<AnyFleetRun> => {
  const figure = (runs: Runs) => {
    const own = runsBy(runs, 'broker')[at]
    return own && toThousandths(of(own.runs) ?? null)
  }
  return goal ? [figure, goal] : [figure]
}

const rows = Object.entries(brokerFigures)

/** Of the first broker with goals, and of a second one, which is mosquitto. */
export const fleetFigures: FigureTable<AnyFleetRun> = Object.fromEntries([
  ...rows.map(([name, row]) => [name, beside(0, row)]),
  ...rows.map(([name, [of]]) => [`mosquitto ${name}`, beside(1, [of])]),
])

const toThousandths = (value: number | null) => (value === null ? null : Math.round(value * 1_000) / 1_000)

export function showFleet(document: DocumentOf<AnyFleetRun>): ShownRuns {
  const { runs, conditions } = document
  const { cpu, cores, devices, sampleEveryS, startsPerS, jobsPerS, watched } = conditions
  const grown = grownOf(runs)
  const panel = (title: string, yLabel: string, figureOf: (run: FleetRun) => number | null) => {
    const working = grown.filter(({ isBroken }) => !isBroken)
    return linePanel(
      title,
      'devices',
      yLabel,
      working.map((run) => [run.broker, run.devices, figureOf(run)]),
    )
  }
  return {
    figure: {
      title: 'A fleet on one bridge',
      subtitle: `${cpu}, ${cores} cores; a sample every ${sampleEveryS} s`,
      columns: 3,
      panels: [
        panel('At rest', '% of a core', ({ restCpuPercent }) => restCpuPercent),
        panel('Until the bridge shows a sample', 'p99, ms', ({ telemetryP99Ms }) => telemetryP99Ms),
        panel('Memory, peak', 'MB', ({ rssMb }) => rssMb),
      ],
    },
    tables: [
      tableOf('By size', grown, [
        ['broker', ({ broker }) => broker],
        ['devices', (run) => String(run.devices)],
        ['connect s', ({ connectS }) => written(connectS)],
        ['CPU s', ({ connectCpuS }) => written(connectCpuS)],
        ['refused', ({ refused }) => String(refused)],
        ['rest, % of a core', ({ restCpuPercent }) => written(restCpuPercent)],
        ['shown p99 ms', ({ telemetryP99Ms }) => written(telemetryP99Ms)],
        ['PUBACK p99 ms', ({ pubackP99Ms }) => written(pubackP99Ms)],
        ['MB', ({ rssMb }) => String(rssMb)],
        ['', ({ isBroken }) => (isBroken ? 'breaks' : '')],
      ]),
    ],
    findings: runsBy(grown, 'broker').map(breakingText).join('\n'),
    conditions: `${cpu}, ${cores} cores for everything; ${loadText(document)}. A \`brim bridge run\` process with the demonstration's
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
- *mostDevices*: the largest size at which all connected and samples took less than 5 s.`,
  }
}

/** Where a broker breaks. */
function breakingText({ name, runs }: { readonly name: FleetBroker; readonly runs: readonly FleetRun[] }): string {
  const broken = runs.find(({ isBroken }) => isBroken)
  const most = runs.findLast(({ isBroken }) => !isBroken)?.devices ?? 0
  return broken
    ? `- ${name}: ${most} devices work, ${broken.devices} do not.`
    : `- ${name}: not broken at ${most} devices, the largest size that was tried.`
}
