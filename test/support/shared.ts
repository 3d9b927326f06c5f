import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest'

type Started<T> = T | Promise<T>

/** Started before the tests of a file or block, and disposed after them; what is shared first is disposed last. */
export function shared<T extends object>(start: () => Started<T>): T {
  return between(start, beforeAll, afterAll)
}

/** As `shared`, for each test. */
export function fresh<T extends object>(start: () => Started<T>): T {
  return between(start, beforeEach, afterEach)
}

/** @returns stands for what has been started: constants can hold it before the tests run */
function between<T extends object>(start: () => Started<T>, before: typeof beforeAll, after: typeof afterAll): T {
  let resource: T | undefined
  before(async () => {
    resource = await start()
  })
  after(async () => {
    const ended = resource as Partial<AsyncDisposable & Disposable> | undefined
    resource = undefined
    await ended?.[Symbol.asyncDispose]?.()
    ended?.[Symbol.dispose]?.()
  })
  const started = (): T => {
    if (!resource) throw new Error('it is started before the tests, and used earlier')
    return resource
  }
  return new Proxy({} as T, {
    get(_, key) {
      const value: unknown = Reflect.get(started(), key, started())
      return typeof value === 'function' ? value.bind(started()) : value
    },
    set: (_, key, value) => Reflect.set(started(), key, value),
    has: (_, key) => key in started(),
    ownKeys: () => Reflect.ownKeys(started()),
    getOwnPropertyDescriptor(_, key) {
      const own = Reflect.getOwnPropertyDescriptor(started(), key)
      return own && { ...own, configurable: true }
    },
  })
}
