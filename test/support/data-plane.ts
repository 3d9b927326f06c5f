import type { Attester } from '../../cloud-bridge/attestation/attester.ts'
import { createSessions, type Sessions } from '../../cloud-bridge/hat/sessions.ts'
import type { Certificate } from '../../cloud-bridge/http/certificate.ts'
import { createDataPlane } from '../../cloud-bridge/link/data-plane.ts'
import type { Serving } from '../../cloud-bridge/serving/serving.ts'
import { type Clock, systemClock } from '../../core/kit/base/clock.ts'
import type { Part } from '../../core/model/engine/contract.ts'
import { maxFrameBytesOf } from '../../core/wire/protocol/frame.ts'
import { dataPath } from '../../core/wire/protocol/messages.ts'
import { startTestHttp } from './http.ts'
import { testServing } from './serving.ts'
import { silentLogger } from './silent-logger.ts'

export const testModelId = 'ab'.repeat(32)

const maxRows = 64
const draftLimit = 4

export interface TestDataPlane extends AsyncDisposable {
  readonly dataUrl: string
  readonly httpUrl: string
  readonly sessions: Sessions
  readonly serving: Serving
  readonly kvBytes: () => number
}

/** The data plane over any part, on a free loopback port. */
export async function startDataPlane(
  part: Part,
  options: {
    clock?: Clock
    width?: number
    sessionsPerDevice?: number
    maxRepeats?: number
    ownerBytes?: number
    budgetBytes?: number
    contextLimit?: number
    prefixMs?: number
    attester?: Attester
    certificate?: Certificate
  } = {},
): Promise<TestDataPlane> {
  const { clock = systemClock, width = 2, contextLimit = 256, attester, certificate } = options
  const logger = silentLogger()
  const budgetBytes = options.budgetBytes ?? 2 ** 30
  const kv = { budgetBytes, ownerBytes: options.ownerBytes ?? budgetBytes, contextLimit, prefixMs: options.prefixMs ?? 0 }
  const serving = testServing(part, { kv, clock })
  const limits = {
    maxRows,
    maxPaddedRows: draftLimit + 1,
    maxRepeats: options.maxRepeats ?? 64,
    sessionsPerDevice: options.sessionsPerDevice ?? 8,
    idleMs: 120_000,
  }
  const chunks = { monitor: serving.monitor, limits: { minTokens: 4, maxTokens: 64 }, pipeline: 1, initialTokens: 16 }
  const models = new Map([[testModelId, { serving, width, chunks, contextLimit }]])
  const sessions = createSessions({ models, limits, clock, logger })
  const plane = createDataPlane({
    sessions,
    bridge: 'bridge-1',
    modelId: testModelId,
    draftLimit,
    maxFrameBytes: maxFrameBytesOf(maxRows, width),
    heartbeatMs: 15_000,
    helloTimeoutMs: 10_000,
    attester,
    clock,
    logger,
  })
  const http = await startTestHttp([], { upgrades: { [dataPath]: plane.upgrade }, certificate, logger })
  return {
    dataUrl: `${certificate ? 'wss' : 'ws'}://127.0.0.1:${http.port}${dataPath}`,
    httpUrl: http.url,
    sessions,
    serving,
    kvBytes: () => serving.memory.usedBytes,
    async [Symbol.asyncDispose]() {
      await sessions.shutdown({ code: 'LINK_LOST', message: 'the bridge is shutting down' })
      await plane.close()
      await http.close()
      await serving.close()
    },
  }
}
