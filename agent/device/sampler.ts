import type { Clock } from '../../core/base/clock.ts'
import type { Logger } from '../../core/base/logger.ts'
import type { Host } from './host.ts'
import { kindOf } from './kind.ts'
import { blank, merge, type Sample, type SamplePart, type Source } from './sample.ts'
import { sourcesFor } from './sources.ts'

export interface SamplerOptions {
  readonly host: Host
  readonly clock: Clock
  readonly logger: Logger
  /** The disk that counts. */
  readonly stateDir: string
}

export interface Sampler {
  /** Never throws, and takes no longer than a few seconds: a source that hangs is left out until it is done. */
  sample(signal: AbortSignal): Promise<Sample>
}

const patienceMs = 5_000
/** A driver may make up names; there is an end to telling of them. */
const mostWarnings = 50

/** The first source that knows a figure has said it: files before programs. */
export function createSampler(options: SamplerOptions): Sampler {
  const { host, clock, logger } = options
  const told = new Set<string>()
  const pending = new Map<Source, Promise<SamplePart>>()
  let opened: { readonly kind: string; readonly sources: readonly Source[] } | undefined

  function warnOnce(source: string, unknown: string, message: string): void {
    const what = `${source} ${unknown}`
    if (told.has(what) || told.size >= mostWarnings) return
    told.add(what)
    logger.warn({ source, unknown }, message)
  }

  async function read(source: Source, signal: AbortSignal): Promise<SamplePart> {
    if (pending.has(source)) return {}
    const warn = (unknown: string) => warnOnce(source.name, unknown, 'unknown to this release, left out')
    const reading = source
      .read(signal, warn)
      .catch((error: unknown): SamplePart => {
        warnOnce(source.name, error instanceof Error ? error.message : String(error), 'source failed, left out')
        return {}
      })
      .finally(() => pending.delete(source))
    pending.set(source, reading)
    const done = new AbortController()
    const late = clock.sleep(patienceMs, AbortSignal.any([done.signal, signal])).then(
      (): SamplePart => {
        warnOnce(source.name, 'no answer', 'source hangs, left out')
        return {}
      },
      (): SamplePart => ({}),
    )
    try {
      return await Promise.race([reading, late])
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
