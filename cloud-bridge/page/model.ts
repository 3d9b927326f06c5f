import { createContext } from 'preact'
import { useContext, useEffect, useReducer, useState } from 'preact/hooks'
import { errorText, type PageApi, pause } from './api.ts'

/** What every view needs: the API, and whether its user may see jobs and change things. */
export const SessionContext = createContext<{ readonly api: PageApi; readonly isOperator: boolean }>(undefined!)
export const useSession = () => useContext(SessionContext)

/** State beside the components, which lasts while they come and go. */
export class ViewModel {
  readonly #listeners = new Set<() => void>()

  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  protected changed(): void {
    for (const listener of this.#listeners) listener()
  }
}

/** Renders the component again when the model has changed: at once, and then at most once in `everyMs`. */
export function useModel(model: ViewModel, everyMs = 100): void {
  const [, render] = useReducer((count: number) => count + 1, 0)
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined
    let shownMs = Number.NEGATIVE_INFINITY
    const show = () => {
      timer = undefined
      shownMs = performance.now()
      render(0)
    }
    const changed = () => {
      timer ??= setTimeout(show, Math.max(0, shownMs + everyMs - performance.now()))
    }
    const end = model.subscribe(changed)
    // It may have changed between the rendering and this.
    changed()
    return () => {
      end()
      clearTimeout(timer)
    }
  }, [model, everyMs])
}

/** Runs until the component leaves, or `keys` change. */
export function useTask(run: (signal: AbortSignal) => Promise<void> | void, keys: readonly unknown[]): void {
  useEffect(() => {
    const ended = new AbortController()
    void run(ended.signal)
    return () => ended.abort()
  }, [...keys])
}

/**
 * Reads again and again until the component leaves.
 * @returns `value` as it was last read; `problem`: why it may be out of date; `again` reads at once
 */
export function usePolled<T>(read: (signal: AbortSignal) => Promise<T>, everyMs: number, keys: readonly unknown[]) {
  const [polled, setPolled] = useState<{ readonly value?: T; readonly problem?: string }>({})
  const [times, again] = useReducer((count: number) => count + 1, 0)
  useTask(
    async (signal) => {
      for (; !signal.aborted; await pause(everyMs, signal))
        try {
          const value = await read(signal)
          setPolled({ value })
        } catch (error) {
          if (!signal.aborted) setPolled((before) => ({ ...before, problem: errorText(error) }))
        }
    },
    [...keys, times],
  )
  return { ...polled, again: () => again(0) }
}

/**
 * Follows a stream while the component is there, and begins anew where `keys` change or the connection is lost.
 * @param read one connection to its end; true: there is no more to follow
 * @returns why what was read may be out of date
 */
export function useFollowed(
  read: (signal: AbortSignal, onOpen: () => void) => Promise<boolean>,
  keys: readonly unknown[],
): string | undefined {
  const { api } = useSession()
  const [problem, setProblem] = useState<string>()
  useTask((signal) => api.follow((onOpen) => read(signal, onOpen), setProblem, signal), keys)
  return problem
}
