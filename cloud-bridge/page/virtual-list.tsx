import type { ComponentChildren } from 'preact'
import { useLayoutEffect, useRef, useState } from 'preact/hooks'

interface Props<Item> {
  readonly label: string
  readonly items: readonly Item[]
  /** px */
  readonly rowHeight: number
  readonly head: ComponentChildren
  keyOf(item: Item): string
  /** The cells of a row. */
  render(item: Item): ComponentChildren
}

/** Rows above and below those in view, so that scrolling shows no gap. */
const overscan = 8

/** A table of any length: only the rows in view are in the document. */
export function VirtualList<Item>({ label, items, rowHeight, head, keyOf, render }: Props<Item>) {
  const body = useRef<HTMLDivElement>(null)
  const [view, setView] = useState({ top: 0, height: 800 })
  const measure = () => setView({ top: body.current!.scrollTop, height: body.current!.clientHeight })
  useLayoutEffect(() => {
    const observer = new ResizeObserver(measure)
    observer.observe(body.current!)
    return () => observer.disconnect()
  }, [])
  const first = Math.max(0, Math.min(Math.floor(view.top / rowHeight) - overscan, items.length))
  const last = Math.ceil((view.top + view.height) / rowHeight) + overscan
  return (
    <div class="table" role="table" aria-label={label} aria-rowcount={items.length + 1}>
      <div role="rowgroup" class="table-head">
        <div role="row" class="row" aria-rowindex={1}>
          {head}
        </div>
      </div>
      <div role="rowgroup" class="table-body" ref={body} tabIndex={0} onScroll={measure}>
        <div role="presentation" class="table-rows" style={{ height: `${items.length * rowHeight}px` }}>
          {items.slice(first, last).map((item, at) => {
            const style = { top: `${(first + at) * rowHeight}px`, height: `${rowHeight}px` }
            return (
              <div role="row" class="row" style={style} aria-rowindex={first + at + 2} key={keyOf(item)}>
                {render(item)}
              </div>
            )
          })}
        </div>
      </div>
    </div>
  )
}
