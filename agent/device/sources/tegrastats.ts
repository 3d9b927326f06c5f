import type { Clock } from '../../../core/base/clock.ts'
import type { Host } from '../host.ts'
import { parseTegrastats } from '../parse/tegrastats.ts'
import { occasionally } from '../program.ts'
import type { Source } from '../sample.ts'
import { jetsonGpu } from './gpu.ts'
import { jetsonRails } from './rails.ts'

/** It never ends by itself, and says its first line after this. */
const intervalMs = 500
const timeoutMs = 3_000
/** A process costs more than all files together. */
const everyMs = 30_000

/**
 * The second source: asked only where files do not tell the GPU's load, or no rail, as on a release that has moved them.
 * What files do tell counts before it.
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
