import type { IncomingMessage } from 'node:http'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { createAuthorizer } from '../../cloud-bridge/identity/authorizer.ts'
import { Quotas } from '../../cloud-bridge/identity/quotas.ts'
import { adminOperations } from '../../core/wire/protocol/http/admin.ts'
import { openIdentityWorld } from '../support/identity-world.ts'
import { silentLogger } from '../support/silent-logger.ts'

const dayMs = 86_400_000
beforeEach(() => void vi.useFakeTimers({ toFake: ['Date'], now: Date.UTC(2026, 0, 1) }))
afterEach(() => void vi.useRealTimers())

describe('an API key', () => {
  it('ends when it expires, and with it the responses that go on', async () => {
    using world = openIdentityWorld()
    const { store, grants, clock } = world
    const { key, expiresAt } = store.createKey('operator:test', 'ci', 'viewer', undefined, 86_400)
    expect(expiresAt).toBe('2026-01-02T00:00:00.000Z')
    expect(store.createKey('operator:test', 'old', 'viewer').expiresAt).toBeNull()
    const quotas = new Quotas(store, { keyRequestsPerMinute: 6_000, deviceAnswersPerMinute: 120 }, clock, Date.now)
    const authorizer = createAuthorizer({ gate: grants, store, quotas, clock, logger: silentLogger() })
    const request = { headers: { authorization: `Bearer ${key}` }, socket: {} } as unknown as IncomingMessage
    const authorize = () => authorizer.authorize(request, adminOperations.whoami)
    const ended = vi.fn()
    authorize().onRevoked(ended)
    vi.setSystemTime(Date.now() + dayMs - 1_000)
    await clock.advance(1_000)
    expect(ended).not.toHaveBeenCalled()
    vi.setSystemTime(Date.now() + 1_000)
    expect(authorize).toThrow(expect.objectContaining({ code: 'NOT_AUTHORIZED', message: expect.stringContaining('expired') }))
    await clock.advance(1_000)
    expect(ended).toHaveBeenCalledOnce()
    await authorizer.close()
  })
})
