import { readFile } from 'node:fs/promises'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { RateTrace } from './rate-trace.ts'

/**
 * Reads a recorded throughput trace: one line of `seconds Mbit/s` per second, as in Lumos5G.
 * @throws BrimError REQUEST_INVALID when the file cannot be read or is not a trace
 */
export async function readRateTrace(file: string): Promise<RateTrace> {
  const hint = 'a line looks like "12.0 345.6": seconds, then Mbit/s'
  const text = await readFile(file, 'utf8').catch((cause: unknown) => {
    throw new BrimError('REQUEST_INVALID', `the trace ${file} cannot be read`, { cause, hint })
  })
  const rates = text
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line) => Number(line.trim().split(/\s+/)[1]))
  if (rates.length === 0 || !rates.every((rate) => rate >= 0) || !rates.some((rate) => rate > 0))
    throw new BrimError('REQUEST_INVALID', `${file} is not a throughput trace`, { hint })
  return { intervalMs: 1_000, bytesPerS: rates.map((rate) => (rate * 1e6) / 8) }
}
