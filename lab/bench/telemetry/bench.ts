import { execFile } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { Io } from '../../../core/base/io.ts'
import { projectRoot } from '../../../core/base/version.ts'
import { renderFigure } from '../../plot/plot.ts'
import { type Bench, type BenchDocument, benchCommand } from '../frame.ts'

const run = promisify(execFile)
const fixtures = fileURLToPath(new URL('jetson/fixtures/', projectRoot))
const cli = fileURLToPath(new URL('dist/brim.js', projectRoot))
const everyS = 10

interface Fixture {
  readonly files: Readonly<Record<string, string | readonly string[]>>
  /** By command line. */
  readonly programs: Readonly<Record<string, string | readonly string[]>>
}

/** What looking at one kind of device costs. */
export interface DeviceCost {
  readonly device: string
  readonly samples: number
  /** Of the process that looks: the programs that it starts are not in it. */
  readonly cpuMs: number
  readonly percentOfCore: number
}

export const telemetryBench: Bench = {
  name: 'telemetry',
  reach: { mostPercentOfCore: { atMost: 0.5 } },
  options: {},
  async run({ quick, progress, io }) {
    const samples = quick ? 50 : 300
    const runs: DeviceCost[] = []
    const names = readdirSync(fixtures).filter((name) => name.endsWith('.json') && name !== 'tegrastats.json')
    for (const device of ['this machine', ...names.map((name) => name.replace('.json', '')).sort(), 'other']) {
      const cost = await costOf(device, samples, io)
      progress(`${device}: ${cost.cpuMs} ms of CPU a sample`)
      runs.push(cost)
    }
    return { conditions: { samples, everyS }, summary: summarise(runs), runs }
  },
  report: (document, goals) => ({ svg: figure(document), markdown: page(document, goals) }),
}

/** `brim bench telemetry` */
export const command = benchCommand(telemetryBench)

export function summarise(runs: readonly DeviceCost[]): BenchDocument['summary'] {
  const of = (name: string) => runs.find(({ device }) => device === name)?.percentOfCore ?? null
  return {
    mostCpuMs: Math.max(...runs.map(({ cpuMs }) => cpuMs)),
    mostPercentOfCore: Math.max(...runs.map(({ percentOfCore }) => percentOfCore)),
    thisMachinePercentOfCore: of('this machine'),
    otherPercentOfCore: of('other'),
  }
}

/** @param device a fixture; or this machine as it is, or as if it had no /proc ('other') */
export async function costOf(device: string, samples: number, io: Pick<Io, 'env' | 'signal'>): Promise<DeviceCost> {
  const dir = mkdtempSync(join(tmpdir(), 'brim-telemetry-'))
  try {
    const isReal = device === 'this machine'
    if (!isReal && device !== 'other') layOut(device, dir)
    const args = ['agent', 'sample', '--count', String(samples), '--every', String(everyS), '--json']
    const path = [join(dir, 'bin'), io.env.PATH ?? ''].join(delimiter)
    const { stdout } = await run(process.execPath, [cli, ...args, ...(isReal ? [] : ['--root', dir])], {
      env: { ...io.env, PATH: path },
      signal: io.signal,
    })
    const { cpuMs, percentOfCore } = JSON.parse(stdout) as Pick<DeviceCost, 'cpuMs' | 'percentOfCore'>
    return { device, samples, cpuMs, percentOfCore }
  } finally {
    rmSync(dir, { recursive: true, force: true })
  }
}

/** A fixture as files below a folder; its programs as scripts in bin/ that say what they say, whatever they are asked. */
function layOut(device: string, dir: string): void {
  const { files, programs } = JSON.parse(readFileSync(join(fixtures, `${device}.json`), 'utf8')) as Fixture
  const text = (lines: string | readonly string[]) => (typeof lines === 'string' ? lines : lines.join('\n'))
  const write = (path: string, contents: string) => {
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, contents)
  }
  for (const [path, contents] of Object.entries(files)) write(join(dir, path), text(contents))
  for (const [line, said] of Object.entries(programs)) {
    const script = join(dir, 'bin', line.split(' ')[0]!)
    write(script, `#!/bin/sh\ncat <<'END'\n${text(said)}\nEND\n`)
    chmodSync(script, 0o755)
  }
}

/** Fixtures of Jetsons are called by module and JetPack: orin-nx-jp6. */
function figure({ runs, conditions }: BenchDocument): string {
  const costs = (runs as DeviceCost[]).map(({ device, cpuMs }) => {
    const [, module, jetpack] = /^(.+)-jp(\d)$/.exec(device) ?? []
    return { module: module ?? device, name: jetpack === undefined ? 'others' : `JetPack ${jetpack}`, cpuMs }
  })
  const panel = (title: string, belongs: (module: string, name: string) => boolean) => {
    const some = costs.filter(({ module, name }) => belongs(module, name))
    const groups = [...new Set(some.map(({ module }) => module))].map((label) => ({
      label,
      bars: some.filter(({ module }) => module === label).map(({ name, cpuMs }) => ({ name, value: cpuMs })),
    }))
    return { kind: 'bars' as const, title, yLabel: 'ms', yMax: Math.max(...costs.map(({ cpuMs }) => cpuMs)), groups }
  }
  const isAgx = (module: string) => module.startsWith('agx-')
  return renderFigure({
    title: 'What a look at the device costs',
    subtitle: `${conditions.cpu}; CPU of a sample, one every ${everyS} s`,
    columns: 3,
    panels: [
      panel('AGX', isAgx),
      panel('Smaller Jetsons', (module, name) => name !== 'others' && !isAgx(module)),
      panel('Other devices', (module, name) => name === 'others' && module !== 'unknown-release'),
    ],
  })
}

function page({ conditions, runs }: BenchDocument, goals: readonly string[][]): string {
  const row = (cells: readonly (string | number)[]) => `| ${cells.join(' | ')} |`
  const table = (head: readonly string[], rows: readonly (readonly (string | number)[])[]) =>
    [head, head.map(() => '---'), ...rows].map(row).join('\n')
  const devices = (runs as DeviceCost[]).map(({ device, cpuMs, percentOfCore }) => [device, cpuMs, percentOfCore])
  return `# Telemetry

Made by \`${conditions.command} --save\` on ${conditions.startedAt} (commit ${conditions.commit ?? 'unknown'}); ${conditions.samples} samples of
each device, [telemetry.json](telemetry.json).

${table(['figure', 'measured', 'reach', ''], goals)}

${table(['device', 'CPU of a sample, ms', `% of a core every ${everyS} s`], devices)}

![CPU of a sample](telemetry.svg)

## Conditions

${conditions.cpu}, ${conditions.cores} cores; load average ${Number(conditions.loadAverageBefore).toFixed(1)} before and
${Number(conditions.loadAverageAfter).toFixed(1)} after. Devices are the files of [jetson/fixtures](../../../jetson/fixtures) on this machine, so
the figures are those of its cores: a Jetson's are slower. Programs are asked as seldom as on the device, but are scripts here; what
they take themselves is not counted. *other* is a device without /proc, asked through the package for such.
`
}
