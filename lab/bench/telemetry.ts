import { chmodSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Io } from '../../core/kit/base/io.ts'
import { tempFolder } from '../../core/kit/base/temp-folder.ts'
import { projectRoot } from '../../core/kit/base/version.ts'
import { brimOutput } from '../cluster/processes.ts'
import type { BenchContext } from '../frame/bench.ts'
import { benchCommand } from '../frame/command.ts'
import { loadText } from '../frame/page.ts'
import { type Bar, barPanel } from '../frame/panels.ts'
import { maxOf } from '../frame/statistics.ts'
import { tabledBench } from '../frame/tabled-bench.ts'
import { tableOf } from '../frame/tables.ts'

/** CPU time of one sample of a device's telemetry. */
interface DeviceCost {
  readonly device: string
  readonly samples: number
  /** CPU time of the sampling process, without the programs that it starts. */
  readonly cpuMs: number
  /** Of one core, at one sample every `everyS` seconds. */
  readonly percentOfCore: number
}

const fixtureFolder = fileURLToPath(new URL('jetson/fixtures/', projectRoot))

/** Seconds between two samples. */
const everyS = 10
const thisMachine = 'this machine'
/** This machine without /proc: the agent then reads it through a package. */
const withoutProc = 'other'

const percentOf = (name: string) => (runs: readonly DeviceCost[]) =>
  runs.find(({ device }) => device === name)?.percentOfCore ?? null

export const telemetryBench = tabledBench<DeviceCost>({
  name: 'telemetry',
  title: 'Telemetry',
  contents: 'the cost of each device',
  figureText: 'CPU time of one sample',
  quickRepetitions: 2,
  figures: {
    mostCpuMs: [(runs) => maxOf(runs.map(({ cpuMs }) => cpuMs))],
    mostPercentOfCore: [(runs) => maxOf(runs.map(({ percentOfCore }) => percentOfCore)), { max: 0.5 }],
    thisMachinePercentOfCore: [percentOf(thisMachine)],
    otherPercentOfCore: [percentOf(withoutProc)],
  },
  measure: (context) => measureTelemetry(devicesToMeasure(), context.quick ? 50 : 300, context),
  show(document) {
    const { runs, conditions } = document
    // Fixtures of Jetsons are named by module and JetPack: orin-nx-jp6.
    const bars = runs.map(({ device, cpuMs }): Bar => {
      const [, module, jetpack] = /^(.+)-jp(\d)$/.exec(device) ?? []
      return module === undefined ? [device, 'others', cpuMs] : [module, `JetPack ${jetpack}`, cpuMs]
    })
    const panel = (title: string, belongs: (module: string, isJetson: boolean) => boolean) => {
      const own = bars.filter(([module, name]) => belongs(module, name !== 'others'))
      return barPanel(title, 'ms', own, Math.max(...runs.map(({ cpuMs }) => cpuMs)))
    }
    const isAgx = (module: string) => module.startsWith('agx-')
    return {
      figure: {
        title: 'CPU time of one telemetry sample',
        subtitle: `${conditions.cpu}; one sample every ${everyS} s`,
        columns: 3,
        panels: [
          panel('AGX', isAgx),
          panel('Smaller Jetsons', (module, isJetson) => isJetson && !isAgx(module)),
          panel('Other devices', (module, isJetson) => !isJetson && module !== 'unknown-release'),
        ],
      },
      tables: [
        tableOf('CPU time per device', runs, [
          ['device', ({ device }) => device],
          ['CPU of a sample, ms', ({ cpuMs }) => String(cpuMs)],
          [`% of a core, one sample every ${everyS} s`, ({ percentOfCore }) => String(percentOfCore)],
        ]),
      ],
      conditions: `${conditions.cpu}, ${conditions.cores} cores; ${loadText(document)}; ${conditions.samples} samples of each device.

- Each device is a fixture of [jetson/fixtures](../../../jetson/fixtures), read on this machine: its figures are those of this
  machine's cores, and a Jetson's cores are slower.
- Programs such as nvidia-smi run as often as on the device, but are scripts here, and their own CPU time is not counted.
- *other* is a device without /proc, which the agent reads through the package systeminformation.`,
    }
  },
})

export const command = benchCommand(telemetryBench)

export async function measureTelemetry(devices: readonly string[], samples: number, { progress, io }: BenchContext) {
  const runs: DeviceCost[] = []
  for (const device of devices) {
    const cost = await costOf(device, samples, io)
    progress(`${device}: ${cost.cpuMs} ms of CPU per sample`)
    runs.push(cost)
  }
  return { conditions: { samples, everyS }, runs }
}

/** Files and program outputs recorded on a device. */
interface Fixture {
  readonly files: Readonly<Record<string, string | readonly string[]>>
  /** By command line. */
  readonly programs: Readonly<Record<string, string | readonly string[]>>
}

/** This machine, every fixture of jetson/fixtures, and a device without /proc. */
function devicesToMeasure(): string[] {
  const fixtures = readdirSync(fixtureFolder).filter((name) => name.endsWith('.json') && name !== 'tegrastats.json')
  return [thisMachine, ...fixtures.map((name) => name.replace('.json', '')).sort(), withoutProc]
}

/** @param device one of `devicesToMeasure` */
export async function costOf(device: string, samples: number, io: Pick<Io, 'env' | 'signal'>): Promise<DeviceCost> {
  await using folder = await tempFolder('telemetry')
  const root = folder.path
  if (device !== thisMachine && device !== withoutProc) layOut(device, root)
  const args = ['agent', 'sample', '--count', String(samples), '--every', String(everyS), '--json']
  const path = [join(root, 'bin'), io.env.PATH ?? ''].join(delimiter)
  const words = [...args, ...(device === thisMachine ? [] : ['--root', root])]
  const output = await brimOutput(words, { env: { ...io.env, PATH: path }, signal: io.signal })
  const { cpuMs, percentOfCore } = JSON.parse(output) as Pick<DeviceCost, 'cpuMs' | 'percentOfCore'>
  return { device, samples, cpuMs, percentOfCore }
}

/** Writes a fixture's files below a folder, and its programs as scripts in bin/ that print their recorded output. */
function layOut(device: string, root: string): void {
  const { files, programs } = JSON.parse(readFileSync(join(fixtureFolder, `${device}.json`), 'utf8')) as Fixture
  const textOf = (lines: string | readonly string[]) => (typeof lines === 'string' ? lines : lines.join('\n'))
  const write = (path: string, contents: string) => {
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, contents)
  }
  for (const [path, contents] of Object.entries(files)) write(join(root, path), textOf(contents))
  for (const [commandLine, output] of Object.entries(programs)) {
    const script = join(root, 'bin', commandLine.split(' ')[0]!)
    write(script, `#!/bin/sh\ncat <<'END'\n${textOf(output)}\nEND\n`)
    chmodSync(script, 0o755)
  }
}
