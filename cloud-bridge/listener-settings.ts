import type { Logger } from '../core/base/logger.ts'
import type { ListenerLimits } from '../core/listen/guard-listener.ts'
import type { HttpLimits } from '../core/listen/http-listener.ts'
import { shareOpenFiles } from '../core/policy/admission/open-files.ts'
import type { BridgeLimits } from './limits.ts'

/** The limits of the bridge's two listeners. */
export interface ListenerSettings {
  readonly mqtt: ListenerLimits
  readonly http: HttpLimits
}

/** @param maxFiles the process's limit of open files; Infinity: none */
export function listenerSettings(limits: BridgeLimits, maxFiles: number, logger: Logger): ListenerSettings {
  const wanted = { mqtt: limits.mqttConnections, http: limits.httpConnections }
  const shares = shareOpenFiles(wanted, maxFiles, limits.reservedFiles)
  if (shares.mqtt < wanted.mqtt || shares.http < wanted.http)
    logger.warn({ maxFiles, ...shares }, 'fewer connections than configured: the limit of open files is low (ulimit -n)')
  const each = {
    perNetwork: limits.connectionsPerNetwork,
    waiting: limits.waitingConnections,
    firstRequestMs: limits.firstRequestS * 1_000,
  }
  return {
    mqtt: { ...each, total: shares.mqtt },
    http: {
      connections: { ...each, total: shares.http },
      requestMs: limits.httpRequestS * 1_000,
      stalledMs: limits.httpStalledS * 1_000,
    },
  }
}
