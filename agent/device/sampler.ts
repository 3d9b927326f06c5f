import type { Logger } from '../../core/kit/base/logger.ts'
import { kindOf } from './kind.ts'
import { blank, merge, type Sample, type SamplePart, type Source } from './sample.ts'
import { type SourceOptions, sourcesFor } from './sources.ts'

export interface SamplerOptions extends SourceOptions {
  readonly logger: Logger
}

export interface Sampler {
  /** Never throws, and takes at most 5 s: a source that hangs is skipped until it has finished. */
  sample(signal: AbortSignal): Promise<Sample>
}

const sourceTimeoutMs = 5_000
/** Bounds the warnings about a driver that invents names. */
const maxWarnings = 50

/** Samples all sources of this kind of device; of two that have a figure, the first wins. */
export function createSampler(options: SamplerOptions): Sampler {
  const { host, clock, logger } = options
  const warned = new Set<string>()
  const pending = new Map<Source, Promise<SamplePart>>()
  let opened: { readonly kind: string; readonly sources: readonly Source[] } | undefined

  function warnOnce(source: string, unknown: string, message: string): void {
    const what = `${source} ${unknown}`
    if (warned.has(what) || warned.size >= maxWarnings) return
    warned.add(what)
    logger.warn({ source, unknown }, message)
  }

  async function read(source: Source, signal: AbortSignal): Promise<SamplePart> {
    if (pending.has(source)) return {}
    const warn = (unknown: string) => warnOnce(source.name, unknown, 'unknown name, skipped')
    const reading = source
      .read(signal, warn)
      .catch((error: unknown): SamplePart => {
        warnOnce(source.name, error instanceof Error ? error.message : String(error), 'source failed, skipped')
        return {}
      })
      .finally(() => pending.delete(source))
    pending.set(source, reading)
    const done = new AbortController()
    const timeout = clock.sleep(sourceTimeoutMs, AbortSignal.any([done.signal, signal])).then(
      (): SamplePart => {
        warnOnce(source.name, 'timeout', 'source timed out, skipped')
        return {}
      },
      (): SamplePart => ({}),
    )
    try {
      return await Promise.race([reading, timeout])
    } finally {
      done.abort()
    }
  }

  return {
    async sample(signal) {
      if (!opened) {
        const kind = await kindOf(host)
        opened = { kind, sources: sourcesFor(kind, options) }
      }
      const { kind, sources } = opened
      const parts = await Promise.all(sources.map((source) => read(source, signal)))
      return merge(blank(kind), parts)
    },
  }
}
