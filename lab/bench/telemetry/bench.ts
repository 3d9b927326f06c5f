import { execFile } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { Io } from '../../../core/kit/base/io.ts'
import { projectRoot } from '../../../core/kit/base/version.ts'
import type { Bench, BenchContext, BenchResult } from '../../frame/bench.ts'
import { benchCommand } from '../../frame/command.ts'
import { type DeviceCost, everyS, telemetryReport } from './report.ts'

const execute = promisify(execFile)
const fixtureFolder = fileURLToPath(new URL('jetson/fixtures/', projectRoot))
const cli = fileURLToPath(new URL('dist/brim.js', projectRoot))

const thisMachine = 'this machine'
/** This machine without /proc: the agent then reads it through a package. */
const withoutProc = 'other'

export const telemetryBench: Bench = {
  name: 'telemetry',
  quickRepetitions: 2,
  options: {},
  examples: [],
  goals: { mostPercentOfCore: { max: 0.5 } },
  run: (context) => benchTelemetry(devicesToMeasure(), context.quick ? 50 : 300, context),
  report: telemetryReport,
}

/** `brim bench telemetry` */
export const command = benchCommand(telemetryBench)

export async function benchTelemetry(
  devices: readonly string[],
  samples: number,
  { progress, io }: BenchContext,
): Promise<BenchResult> {
  const runs: DeviceCost[] = []
  for (const device of devices) {
    const cost = await costOf(device, samples, io)
    progress(`${device}: ${cost.cpuMs} ms of CPU per sample`)
    runs.push(cost)
  }
  return { conditions: { samples, everyS }, summary: summarise(runs), runs }
}

export function summarise(runs: readonly DeviceCost[]) {
  const percentOf = (name: string) => runs.find(({ device }) => device === name)?.percentOfCore ?? null
  return {
    mostCpuMs: Math.max(...runs.map(({ cpuMs }) => cpuMs)),
    mostPercentOfCore: Math.max(...runs.map(({ percentOfCore }) => percentOfCore)),
    thisMachinePercentOfCore: percentOf('this machine'),
    otherPercentOfCore: percentOf('other'),
  }
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
  const root = mkdtempSync(join(tmpdir(), 'brim-telemetry-'))
  try {
    if (device !== thisMachine && device !== withoutProc) layOut(device, root)
    const args = ['agent', 'sample', '--count', String(samples), '--every', String(everyS), '--json']
    const path = [join(root, 'bin'), io.env.PATH ?? ''].join(delimiter)
    const { stdout } = await execute(process.execPath, [cli, ...args, ...(device === thisMachine ? [] : ['--root', root])], {
      env: { ...io.env, PATH: path, BRIM_STOP_WITH_STDIN: '1' },
      signal: io.signal,
    })
    const { cpuMs, percentOfCore } = JSON.parse(stdout) as Pick<DeviceCost, 'cpuMs' | 'percentOfCore'>
    return { device, samples, cpuMs, percentOfCore }
  } finally {
    rmSync(root, { recursive: true, force: true })
  }
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
