import { existsSync } from 'node:fs'
import { readdir, readFile, stat } from 'node:fs/promises'
import { isAbsolute, join } from 'node:path'
import { promisify } from 'node:util'
import { gunzip } from 'node:zlib'
import { BrimError } from '../../../core/kit/base/errors.ts'
import { readRateTrace } from '../../cluster/net-trace.ts'
import type { RateTrace } from '../../cluster/rate-trace.ts'
import type { ApiLatency } from '../hardware/api-server.ts'
import type { Board } from '../hardware/board.ts'
import { isHardwareFile, parseHardwareFile } from '../hardware/presets/hardware-file.ts'
import type { Rate, Scenario } from '../scenario/scenario.ts'
import { parseLatencyTrace } from '../traces/latency-trace.ts'
import { parseRequestTrace, type TracedRequest } from '../traces/request-trace.ts'

/** What the files hold that a scenario names. */
export interface ScenarioData {
  readonly requests: readonly TracedRequest[] | undefined
  /** Traces of links, by the path in the scenario. */
  readonly rates: ReadonlyMap<string, readonly RateTrace[]>
  /** Recorded latencies of the API server. */
  readonly latencies: readonly ApiLatency[] | undefined
  /** Machines in place of presets, by the path in the scenario. */
  readonly machines: ReadonlyMap<string, Board>
}

/**
 * Reads the files that a scenario names.
 * @param folders in which relative paths are looked for, in this order
 * @throws BrimError REQUEST_INVALID naming the file that is missing or wrong; CONFIG_INVALID naming the wrong field of a machine
 */
export async function readScenarioData(scenario: Scenario, folders: readonly string[]): Promise<ScenarioData> {
  const { arrivals } = scenario.workload
  const requests =
    arrivals.kind === 'trace' ? parseRequestTrace(await readText(found(arrivals.file, folders)), arrivals.file) : undefined
  const rates = new Map<string, readonly RateTrace[]>()
  for (const { link } of scenario.devices)
    for (const rate of [link.up, link.down])
      if (isTrace(rate) && !rates.has(rate.trace)) rates.set(rate.trace, await readRates(found(rate.trace, folders)))
  const recorded = scenario.server?.trace
  const latencies = recorded === undefined ? undefined : parseLatencyTrace(await readText(found(recorded, folders)), recorded)
  const machines = new Map<string, Board>()
  for (const name of [...scenario.devices.map(({ board }) => board), ...(scenario.cloud ? [scenario.cloud.gpu] : [])])
    if (isHardwareFile(name))
      machines.set(name, parseHardwareFile(await readText(found(name, folders, 'machine'), 'machine'), name))
  return { requests, rates, latencies, machines }
}

const isTrace = (rate: Rate): rate is Extract<Rate, { trace: string }> => typeof rate === 'object' && 'trace' in rate

/** @param what the file holds @throws BrimError REQUEST_INVALID */
function found(path: string, folders: readonly string[], what = 'trace'): string {
  const candidates = isAbsolute(path) ? [path] : folders.map((folder) => join(folder, path))
  const existing = candidates.find((candidate) => existsSync(candidate))
  if (existing !== undefined) return existing
  throw new BrimError('REQUEST_INVALID', `the ${what} ${path} is in none of ${candidates.join(', ')}`, {
    hint: 'name the folder that holds it with --data',
  })
}

/** Unpacked where its name ends in .gz. @throws BrimError REQUEST_INVALID */
export async function readText(file: string, what = 'trace'): Promise<string> {
  try {
    const bytes = await readFile(file)
    return (file.endsWith('.gz') ? await promisify(gunzip)(bytes) : bytes).toString('utf8')
  } catch (cause) {
    throw new BrimError('REQUEST_INVALID', `the ${what} ${file} cannot be read`, {
      cause,
      hint: 'is it a file, and readable? --data names the folder of traces',
    })
  }
}

async function readRates(path: string): Promise<readonly RateTrace[]> {
  if (!(await stat(path)).isDirectory()) return [await readRateTrace(path)]
  const names = (await readdir(path)).filter((name) => name.endsWith('.txt')).sort()
  if (names.length === 0) throw new BrimError('REQUEST_INVALID', `the folder ${path} has no traces (*.txt)`)
  return Promise.all(names.map((name) => readRateTrace(join(path, name))))
}
