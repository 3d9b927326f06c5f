import { readFile } from 'node:fs/promises'
import { BrimError } from '../../core/base/errors.ts'
import type { RateTrace } from './rate-trace.ts'

/**
 * A recorded throughput trace: lines of `seconds Mbit/s`, one a second, as those of Lumos5G.
 * @throws BrimError REQUEST_INVALID when the file cannot be read or is none
 */
export async function readRateTrace(file: string): Promise<RateTrace> {
  const hint = 'every line is like "12.0 345.6": seconds, then Mbit/s'
  const text = await readFile(file, 'utf8').catch((cause: unknown) => {
    throw new BrimError('REQUEST_INVALID', `the trace ${file} cannot be read`, { cause, hint })
  })
  const rates = text
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line) => Number(line.trim().split(/\s+/)[1]))
  if (rates.length === 0 || !rates.every((rate) => rate >= 0) || !rates.some((rate) => rate > 0))
    throw new BrimError('REQUEST_INVALID', `${file} is no throughput trace`, { hint })
  return { intervalMs: 1_000, bytesPerS: rates.map((rate) => (rate * 1e6) / 8) }
}
