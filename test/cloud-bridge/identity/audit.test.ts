import { expect, it } from 'vitest'
import { openIdentityStore } from '../../../cloud-bridge/identity/store.ts'
import { tempDir } from '../../support/temp-dir.ts'

it('the audit log deletes its oldest lines beyond the maximum', () => {
  using dir = tempDir()
  const store = openIdentityStore(dir.path, { auditChanges: 1, auditRefusals: 1, auditRequests: 10 })
  const line = (n: number) => ({ actor: 'test', action: 'job.submit', subject: String(n), outcome: 'ok' as const, detail: {} })
  for (let n = 0; n < 25; n += 5) store.record(Array.from({ length: 5 }, (_, i) => line(n + i)))
  expect(store.audit(100).map(({ subject }) => Number(subject))).toEqual([24, 23, 22, 21, 20, 19, 18, 17, 16, 15])
  store.close()
})
