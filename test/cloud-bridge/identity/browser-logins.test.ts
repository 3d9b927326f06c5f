import fc from 'fast-check'
import { describe, expect, it, onTestFinished } from 'vitest'
import { BrowserLogins, codeMs, loginMs } from '../../../cloud-bridge/identity/browser-logins.ts'
import { openIdentityStore } from '../../../cloud-bridge/identity/store.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { tempDir } from '../../support/temp-dir.ts'

function openWorld() {
  const dir = tempDir()
  const store = openIdentityStore(dir.path)
  onTestFinished(() => {
    store.close()
    dir[Symbol.dispose]()
  })
  const clock = fakeClock()
  const { id } = store.createKey('operator:test', 'sam', 'operator')
  return { store, clock, logins: new BrowserLogins(store, clock), key: store.validKey(id)! }
}

const login = ({ logins, key }: ReturnType<typeof openWorld>) => logins.exchange(logins.issue(key))!.token!

describe("a browser's login", () => {
  it('has the key that its code was made for, for twelve hours', async () => {
    const world = openWorld()
    const token = login(world)
    expect(world.logins.keyOf(token)).toMatchObject({ name: 'sam', role: 'operator' })
    await world.clock.advance(loginMs - 1)
    expect(world.logins.keyOf(token)?.name).toBe('sam')
    await world.clock.advance(1)
    expect(world.logins.keyOf(token)).toBeUndefined()
  })

  it('ends with its key, and a code of a revoked key is worth nothing', () => {
    const world = openWorld()
    const token = login(world)
    const code = world.logins.issue(world.key)
    world.store.revokeKey('operator:test', world.key.id)
    expect(world.logins.keyOf(token)).toBeUndefined()
    expect(world.logins.exchange(code)).toBeUndefined()
  })

  it('is the only one of its code', () => {
    const { logins, key } = openWorld()
    const codes = Array.from({ length: 100 }, () => logins.issue(key))
    expect(new Set(codes).size).toBe(100)
    for (const code of codes) expect(logins.exchange(code)?.token).toBeDefined()
    for (const code of codes) expect(logins.exchange(code)).toEqual({ key })
  })

  it('is no code, and a code is no login', () => {
    const world = openWorld()
    expect(world.logins.exchange(login(world))).toBeUndefined()
    expect(world.logins.keyOf(world.logins.issue(world.key))).toBeUndefined()
  })

  it('is not made by a code after its minute, or by anything that is no code', async () => {
    const { logins, key, clock } = openWorld()
    const code = logins.issue(key)
    await clock.advance(codeMs)
    expect(logins.exchange(code)).toBeUndefined()
    const anyText = fc.oneof(
      fc.string(),
      fc.tuple(fc.base64String(), fc.base64String()).map((parts) => parts.join('.')),
    )
    fc.assert(fc.property(anyText, (text) => logins.exchange(text) === undefined && logins.keyOf(text) === undefined))
  })
})
