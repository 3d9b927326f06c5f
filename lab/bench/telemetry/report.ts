import type { BenchDocument, BenchReport } from '../../frame/bench.ts'
import { loadText } from '../../frame/page.ts'
import type { Figure } from '../../plot/plot.ts'

/** Seconds between two samples. */
export const everyS = 10

/** CPU time of one sample of a device's telemetry. */
export interface DeviceCost {
  readonly device: string
  readonly samples: number
  /** CPU time of the sampling process, without the programs that it starts. */
  readonly cpuMs: number
  /** Of one core, at one sample every `everyS` seconds. */
  readonly percentOfCore: number
}

export const telemetryReport: BenchReport = {
  title: 'Telemetry',
  contents: 'the cost of each device',
  figure,
  figureText: 'CPU time of one sample',
  tables: ({ runs }) => [
    {
      title: `CPU time per device`,
      head: ['device', 'CPU of a sample, ms', `% of a core, one sample every ${everyS} s`],
      rows: (runs as DeviceCost[]).map(({ device, cpuMs, percentOfCore }) => [device, String(cpuMs), String(percentOfCore)]),
    },
  ],
  conditions(document) {
    const { cpu, cores, samples } = document.conditions
    return `${cpu}, ${cores} cores; ${loadText(document)}; ${samples} samples of each device.

- Each device is a fixture of [jetson/fixtures](../../../jetson/fixtures), read on this machine: its figures are those of this
  machine's cores, and a Jetson's cores are slower.
- Programs such as nvidia-smi run as often as on the device, but are scripts here, and their own CPU time is not counted.
- *other* is a device without /proc, which the agent reads through the package systeminformation.`
  },
}

function figure({ runs, conditions }: BenchDocument): Figure {
  // Fixtures of Jetsons are named by module and JetPack: orin-nx-jp6.
  const costs = (runs as DeviceCost[]).map(({ device, cpuMs }) => {
    const [, module, jetpack] = /^(.+)-jp(\d)$/.exec(device) ?? []
    return { module: module ?? device, name: jetpack === undefined ? 'others' : `JetPack ${jetpack}`, cpuMs }
  })
  const yMax = Math.max(...costs.map(({ cpuMs }) => cpuMs))
  const panel = (title: string, belongs: (module: string, name: string) => boolean) => {
    const own = costs.filter(({ module, name }) => belongs(module, name))
    const groups = [...new Set(own.map(({ module }) => module))].map((label) => ({
      label,
      bars: own.filter(({ module }) => module === label).map(({ name, cpuMs }) => ({ name, value: cpuMs })),
    }))
    return { kind: 'bars' as const, title, yLabel: 'ms', yMax, groups }
  }
  const isAgx = (module: string) => module.startsWith('agx-')
  return {
    title: 'CPU time of one telemetry sample',
    subtitle: `${conditions.cpu}; one sample every ${everyS} s`,
    columns: 3,
    panels: [
      panel('AGX', isAgx),
      panel('Smaller Jetsons', (module, name) => name !== 'others' && !isAgx(module)),
      panel('Other devices', (module, name) => name === 'others' && module !== 'unknown-release'),
    ],
  }
}
