/** What one of the processes that are one bridge together has to serve. */
export interface NodeLoad {
  readonly node: string
  /** Devices that are connected to it. */
  readonly links: number
  /** Open HAT sessions. */
  readonly sessions: number
  /** It gets no further links. */
  readonly isDraining: boolean
}

/** Loads may differ by this part: a link that is passed on costs a hop, and one that moves a replay. */
const tolerance = 1 / 8
/** Part of the links above its share that a process sends away at once: what the others have announced is a second old. */
const movedAtOnce = 1 / 4

/** A device that is answering counts twice. */
export const linkLoad = ({ links, sessions }: Pick<NodeLoad, 'links' | 'sessions'>): number => links + sessions

/** The process that serves a new link which has come to `own`: that one, unless another has clearly less to do. */
export function placeLink(own: string, nodes: readonly NodeLoad[]): string {
  const open = nodes.filter(({ isDraining }) => !isDraining)
  const least = open.toSorted((a, b) => linkLoad(a) - linkLoad(b) || (a.node < b.node ? -1 : 1))[0]
  if (!least) return own
  const mine = open.find(({ node }) => node === own)
  return mine && linkLoad(mine) <= linkLoad(least) * (1 + tolerance) ? own : least.node
}

/** Links that `own` sends away now, whose devices connect again and are placed anew. By the same loads as `placeLink`, so that none goes back and forth. */
export function linksToMove(own: string, nodes: readonly NodeLoad[]): number {
  const mine = nodes.find(({ node }) => node === own)
  const others = nodes.filter(({ node, isDraining }) => node !== own && !isDraining)
  if (!mine || others.length === 0) return 0
  if (mine.isDraining) return mine.links
  const share = Math.ceil([mine, ...others].reduce((sum, each) => sum + linkLoad(each), 0) / (others.length + 1))
  const excess = linkLoad(mine) - share - Math.floor(share * tolerance)
  return Math.min(mine.links, Math.max(0, Math.ceil(excess * movedAtOnce)))
}
