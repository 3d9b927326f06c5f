import { render } from 'preact'
import { useEffect, useLayoutEffect, useMemo, useState } from 'preact/hooks'
import { AnswersPage } from './answers.tsx'
import { errorText, type OfferedLogin, PageApi, RequestFailed, type User } from './api.ts'
import { ChatPage } from './chat.tsx'
import { ChatModel } from './chat-model.ts'
import { DevicePage } from './device.tsx'
import { DisclosuresPage } from './disclosures.tsx'
import { FleetPage } from './fleet.tsx'
import { FleetModel } from './fleet-model.ts'
import { JobPage, JobsPage } from './jobs.tsx'
import { LoginForm, LoginOffer } from './login.tsx'
import { MetricsModel } from './metrics.ts'
import { SessionContext, useTask } from './model.ts'
import { OwnDevicePage } from './own-device.tsx'
import { Notice } from './parts.tsx'
import { ReplayModel } from './replay-model.ts'
import { RolloutsPage } from './rollouts.tsx'
import { WhatIfPage } from './what-if.tsx'

const api = new PageApi(document.documentElement.dataset)

const titles = {
  own: 'Device',
  fleet: 'Fleet',
  chat: 'Chat',
  answers: 'Answers',
  disclosures: 'Disclosures',
  jobs: 'Jobs',
  rollouts: 'Rollouts',
  'what-if': 'What if',
} as const

/** What a role may see. A client asks, and sees nothing else; a viewer may not ask. */
function viewsOf(role: User['role']): readonly (keyof typeof titles)[] {
  if (api.server === 'agent') return ['own', 'chat', 'answers', 'disclosures']
  if (role === 'client') return ['chat', 'answers']
  return role === 'viewer' ? ['fleet', 'answers', 'rollouts'] : ['fleet', 'chat', 'answers', 'jobs', 'rollouts', 'what-if']
}

/** `#/device/jetson-01` → device, jetson-01. Names of ours need no encoding. */
const routeOf = (hash: string) => hash.replace(/^#\//, '').split('/') as [view: string, id?: string]

const codeOf = (hash: string) => /^#\/login\/([\w.-]+)$/.exec(hash)?.[1]

/** The code of “brim login --browser” is taken out of the URL before it is used: it would stay in the history. */
function takeCode(): string | undefined {
  const code = codeOf(location.hash)
  if (code !== undefined) history.replaceState(null, '', '#/')
  return code
}

function App() {
  /** Null: a key is needed. */
  const [user, setUser] = useState<User | null>()
  const [offered, setOffered] = useState<OfferedLogin>()
  const [problem, setProblem] = useState<string>()
  async function logIn(key?: string) {
    if (key !== undefined) api.key = key
    setOffered(undefined)
    try {
      setUser((await api.login()) ?? null)
      setProblem(undefined)
    } catch (error) {
      // A key that is refused is forgotten, and `onRefused` says so.
      if (!(error instanceof RequestFailed) || error.status !== 401) setProblem(errorText(error))
      setUser(null)
    }
  }
  /** A stranger may have made the URL: its login is used if the user agrees, and the present one lasts until then. */
  async function enter() {
    const code = takeCode()
    const offer = code === undefined ? undefined : await api.exchange(code).catch(errorText)
    await logIn()
    if (typeof offer === 'string') setProblem(offer)
    else setOffered(offer)
  }
  function leave(why?: string) {
    api.key = undefined
    setUser(null)
    setProblem(why)
  }
  useEffect(() => {
    api.onRefused = () => leave('the server does not accept this key')
    const enterByUrl = () => {
      if (codeOf(location.hash) !== undefined) void enter()
    }
    addEventListener('hashchange', enterByUrl)
    void enter()
    return () => removeEventListener('hashchange', enterByUrl)
  }, [])
  if (user === undefined) return null
  if (offered) return <LoginOffer offered={offered} present={user} accept={logIn} decline={() => setOffered(undefined)} />
  return user ? (
    <Views user={user} problem={problem} leave={() => leave()} />
  ) : (
    <LoginForm server={api.server} problem={problem} onKey={logIn} />
  )
}

interface ViewsProps {
  readonly user: User
  /** Of a login that was offered. */
  readonly problem: string | undefined
  leave(): void
}

function Views({ user: { name, role }, problem, leave }: ViewsProps) {
  const views = viewsOf(role)
  const [[view, id = ''], setRoute] = useState(() => routeOf(location.hash))
  useEffect(() => {
    const change = () => setRoute(routeOf(location.hash))
    addEventListener('hashchange', change)
    return () => removeEventListener('hashchange', change)
  }, [])
  const session = useMemo(() => ({ api, isOperator: views.includes('jobs') }), [role])
  const fleet = useMemo(() => new FleetModel(api), [])
  const chat = useMemo(() => new ChatModel(api), [])
  const replay = useMemo(() => new ReplayModel(), [])
  const metrics = useMemo(() => new MetricsModel(api), [])
  const seesFleet = views.includes('fleet')
  // While another view is open, too: the list is up to date at once.
  useTask((signal) => (seesFleet ? fleet.follow(signal) : undefined), [seesFleet])
  const shown = view || views[0]!
  // Each view begins at its top.
  useLayoutEffect(() => document.getElementById('main')!.scrollTo(0, 0), [shown, id])
  const current = { device: 'fleet', job: 'jobs', rollout: 'rollouts' }[shown] ?? shown
  function shownView() {
    if (shown === 'own') return <OwnDevicePage />
    if (shown === 'fleet') return <FleetPage fleet={fleet} metrics={metrics} />
    if (shown === 'device') return <DevicePage id={id} key={id} />
    if (shown === 'chat') return <ChatPage chat={chat} />
    if (shown === 'answers') return <AnswersPage chat={chat} replay={replay} metrics={seesFleet ? metrics : undefined} />
    if (shown === 'disclosures') return <DisclosuresPage />
    if (shown === 'jobs') return <JobsPage />
    if (shown === 'job') return <JobPage id={id} key={id} />
    if (shown === 'rollouts') return <RolloutsPage key="" />
    if (shown === 'rollout') return <RolloutsPage id={id} key={id} />
    if (shown === 'what-if') return <WhatIfPage />
    return <Notice text={`there is no view "${shown}"`} isProblem />
  }
  return (
    <SessionContext.Provider value={session}>
      <button type="button" class="skip" onClick={() => document.getElementById('main')?.focus()}>
        Skip to the content
      </button>
      <header>
        <strong>Brim</strong>
        <nav aria-label="Views">
          {views.map((each) => (
            <a href={`#/${each}`} aria-current={each === current ? 'page' : undefined} key={each}>
              {titles[each]}
            </a>
          ))}
        </nav>
        <span class="dim user">
          {name} {role === 'owner' ? '' : `· ${role}`}{' '}
          <button type="button" class="plain" hidden={api.key === undefined} onClick={leave}>
            Log out
          </button>
        </span>
      </header>
      {/* It scrolls, so that it can be reached by keys where nothing in it can. */}
      <main id="main" tabIndex={0}>
        <Notice text={problem} isProblem />
        {shownView()}
      </main>
    </SessionContext.Provider>
  )
}

render(<App />, document.body)
