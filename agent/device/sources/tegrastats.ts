import type { Clock } from '../../../core/kit/base/clock.ts'
import type { Host } from '../host.ts'
import { parseTegrastats } from '../parse/tegrastats.ts'
import { occasionally } from '../program.ts'
import type { Source } from '../sample.ts'
import { jetsonGpu } from './gpu.ts'
import { jetsonRails } from './rails.ts'

/** tegrastats runs until it is killed, and prints its first line after this interval. */
const intervalMs = 500
const timeoutMs = 3_000
/** The process costs more than reading all files. */
const everyMs = 30_000

/**
 * A fallback for releases that have moved files: runs only if the files yield no GPU load or no rail. Figures from files take
 * precedence.
 */
export function tegrastats(host: Host, clock: Clock): Source {
  const files = [jetsonGpu(host), jetsonRails(host)]
  const args = ['--interval', String(intervalMs)]
  const ask = occasionally(host, clock, { program: 'tegrastats', args, timeoutMs, firstLine: true, everyMs })
  let isNeeded: boolean | undefined
  return {
    name: 'tegrastats',
    async read(signal, warn) {
      isNeeded ??= await isMissing(signal)
      const line = isNeeded ? await ask(signal) : undefined
      if (line === undefined) return {}
      const { part, unknown } = parseTegrastats(line)
      for (const word of unknown) warn(word)
      return part
    },
  }

  async function isMissing(signal: AbortSignal): Promise<boolean> {
    const [gpu, rails] = await Promise.all(files.map((source) => source.read(signal, () => {})))
    return (gpu?.load?.gpuPercent ?? null) === null || rails?.power?.totalW === undefined
  }
}
