import { readFileSync, statSync } from 'node:fs'
import { createSecureContext } from 'node:tls'
import type { Clock } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import { repeatEvery } from '../../core/kit/base/repeat.ts'

/** A certificate with its intermediates, and its private key: as PEM, or the paths of PEM files. */
export interface CertificatePair {
  readonly cert: string
  readonly key: string
}

/** A certificate that follows its files. */
export interface Certificate {
  readonly current: CertificatePair
  onChange(listener: (pair: CertificatePair) => void): void
  close(): void
}

/** Read, not watched: renewal tools replace links, which file watchers miss. */
const readEveryMs = 5_000

/**
 * Reads a certificate, and reads it again when it is renewed. A pair that does not fit together changes nothing: one file may
 * be written before the other.
 * @throws BrimError CONFIG_INVALID
 */
export function openCertificate(files: CertificatePair, clock: Clock, logger: Logger): Certificate {
  const listeners: ((pair: CertificatePair) => void)[] = []
  let current = readPair(files)
  let loggedError: string | undefined

  function reload(): void {
    try {
      const pair = readPair(files)
      loggedError = undefined
      if (pair.cert === current.cert && pair.key === current.key) return
      current = pair
      for (const listener of listeners) listener(pair)
      logger.info(files, 'TLS certificate renewed')
    } catch (err) {
      if (String(err) !== loggedError) logger.error({ err }, 'TLS certificate invalid; the previous one stays in use')
      loggedError = String(err)
    }
  }

  const stop = repeatEvery(clock, readEveryMs, reload)
  return {
    get current() {
      return current
    },
    onChange: (listener) => listeners.push(listener),
    close: stop,
  }
}

/** @throws BrimError CONFIG_INVALID */
export function readPair({ cert, key }: CertificatePair): CertificatePair {
  try {
    const mode = statSync(key).mode & 0o777
    if ((mode & 0o007) !== 0)
      throw new BrimError('CONFIG_INVALID', `every user can read the TLS key ${key} (mode 0${mode.toString(8)})`, {
        hint: `chmod 600 ${key}`,
      })
    const pair = { cert: readFileSync(cert, 'utf8'), key: readFileSync(key, 'utf8') }
    createSecureContext(pair)
    return pair
  } catch (cause) {
    if (cause instanceof BrimError) throw cause
    throw new BrimError('CONFIG_INVALID', `the TLS certificate ${cert} and key ${key} cannot be used`, {
      cause,
      hint: 'both must be PEM files, belong together, and be readable by the user of the bridge (a service: chown root:brim, chmod 640)',
    })
  }
}
